//! Which files are TLS libraries, or have one inside; and where these usually are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache};

use super::tls::functions;

/// Bytes of a table of symbols or their names. Larger ones are not read.
const TABLE_MAX: u64 = 96 << 20;

/// The functions of TLS libraries that a file has, and where each is in the file.
pub fn tls_functions(file: &File) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    each_function(file, |elf, name, address| {
        if let Some(name) = functions().find(|function| *function == name)
            && let Some(offset) = offset(elf, address)
        {
            found.entry(name).or_insert(offset);
        }
    });
    // Without these two, nothing can be followed.
    let is_complete = |new, read| found.contains_key(new) && found.contains_key(read);
    if is_complete("SSL_new", "SSL_read") || is_complete("gnutls_init", "gnutls_record_recv") {
        found
    } else {
        BTreeMap::new()
    }
}

/// A TLS library that is not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherTls {
    /// Mozilla's.
    Nss,
    /// Inside a program in Go.
    Go,
}

/// Which TLS library that is not looked into a file is, or has inside, as far as its symbols tell.
pub fn other_tls(file: &File) -> Option<OtherTls> {
    let mut found = None;
    each_function(file, |_, name, _| match name {
        "SSL_ImportFD" => found = Some(OtherTls::Nss),
        "crypto/tls.(*Conn).Read" => found = Some(OtherTls::Go),
        _ => {}
    });
    found
}

type Elf<'a> = ElfFile<'a, FileHeader64<Endianness>, &'a ReadCache<&'a File>>;

/// Calls `look` with the name and the address of each symbol of interest that a file defines.
fn each_function(file: &File, mut look: impl FnMut(&Elf<'_>, &str, u64)) {
    let cache = ReadCache::new(file);
    let Ok(elf) = Elf::parse(&cache) else { return };
    if elf
        .sections()
        .any(|section| is_table(&section) && section.size() > TABLE_MAX)
    {
        return;
    }
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.is_undefined() || symbol.address() == 0 {
            continue;
        }
        // Most names differ in the first letters.
        if let Ok(name) = symbol.name()
            && ["SSL_", "gnutls_", "crypto/tls."]
                .iter()
                .any(|known| name.starts_with(known))
        {
            look(&elf, name, symbol.address());
        }
    }
}

fn is_table<'a>(section: &impl object::ObjectSection<'a>) -> bool {
    use object::SectionKind::{Metadata, OtherString};
    matches!(section.kind(), Metadata | OtherString)
}

/// Where an address is in the file.
fn offset(elf: &Elf<'_>, address: u64) -> Option<u64> {
    let endian = elf.endian();
    elf.elf_program_headers().iter().find_map(|segment| {
        let start = segment.p_vaddr(endian);
        let is_here = segment.p_type(endian) == PT_LOAD
            && segment.p_flags(endian) & PF_X != 0
            && (start..start.checked_add(segment.p_filesz(endian))?).contains(&address);
        is_here.then(|| address - start + segment.p_offset(endian))
    })
}

/// Files that usually are TLS libraries, or have one inside.
pub fn tls_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for directory in directories() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if ["libssl.so", "libgnutls.so"]
                .iter()
                .any(|known| name.starts_with(known))
            {
                places.push(entry.path());
            }
        }
    }
    for directory in ["/usr/bin", "/usr/local/bin", "/opt/node/bin"] {
        places.push(Path::new(directory).join("node"));
    }
    places
}

/// Where libraries are: `/usr/lib64`, `/usr/lib`, and its directories for an architecture.
fn directories() -> Vec<PathBuf> {
    let arch = std::env::consts::ARCH;
    let triple = format!("{arch}-linux-gnu");
    let triple = triple.as_str();
    [
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/usr/local/lib64",
    ]
    .into_iter()
    .map(PathBuf::from)
    .chain(["/usr/lib", "/usr/local/lib"].map(|lib| Path::new(lib).join(triple)))
    .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_tls_has_none_of_the_functions() {
        let own = File::open("/proc/self/exe").unwrap();
        assert!(tls_functions(&own).is_empty());
        let text = File::open("/proc/self/status").unwrap();
        assert!(tls_functions(&text).is_empty());
    }
}
