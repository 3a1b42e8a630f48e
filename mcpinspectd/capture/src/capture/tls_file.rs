//! Which files are TLS libraries, or contain one; and where these usually are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, PF_X, PT_LOAD, ProgramHeader64};
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{
    Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache,
};

use super::tls::{TlsFunctions, functions};
use crate::golang;
use crate::golang::{Image, Machine, Part, Refusal, Segment};

/// Most bytes of a table of symbols or their names. Larger ones are not read.
const TABLE_MAX: u64 = 96 << 20;

/// A file's supported TLS functions.
pub fn tls_functions(file: &File) -> TlsFunctions {
    TlsFunctions {
        named: named_functions(file),
        go: go_functions(file).and_then(Result::ok),
    }
}

fn named_functions(file: &File) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    each_function(file, |elf, name, address| {
        if let Some(name) = functions().find(|function| *function == name)
            && let Some(offset) = offset(elf, address)
        {
            found.entry(name).or_insert(offset);
        }
    });
    // Without these, nothing can be followed. NSS and what moves its bytes are in different files.
    let is_complete = |names: &[&str]| names.iter().all(|name| found.contains_key(name));
    if is_complete(&["SSL_new", "SSL_read"])
        || is_complete(&["gnutls_init", "gnutls_record_recv"])
        || is_complete(&["SSL_ImportFD"])
        || is_complete(&["PR_Read", "PR_Recv", "PR_Write", "PR_Send"])
    {
        found
    } else {
        BTreeMap::new()
    }
}

/// The TLS functions of a program in Go; `None` if the file is not one for this machine.
fn go_functions(file: &File) -> Option<Result<golang::TlsFunctions, Refusal>> {
    let cache = ReadCache::new(file);
    let elf = Elf::parse(&cache).ok()?;
    let image = go_image(&elf)?;
    Some(golang::tls_functions(file, &image))
}

/// Where the parts of a program in Go are.
fn go_image(elf: &Elf<'_>) -> Option<Image> {
    let machine = match elf.architecture() {
        Architecture::X86_64 if cfg!(target_arch = "x86_64") => Machine::X86,
        Architecture::Aarch64 if cfg!(target_arch = "aarch64") => Machine::Arm,
        _ => return None,
    };
    let part = |name| {
        let (offset, length) = elf.section_by_name(name)?.file_range()?;
        Some(Part { offset, length })
    };
    // Position-independent programs had it elsewhere, up to Go 1.25.
    let functions = part(".gopclntab").or_else(|| part(".data.rel.ro.gopclntab"))?;
    let build_info = part(".go.buildinfo").unwrap_or_default();
    // Go's code need not come first if another linker produced the program.
    let is_small = !has_large_tables(elf);
    let symbols = is_small.then(|| elf.symbols()).into_iter().flatten();
    let start = symbols
        .filter(|symbol| symbol.name() == Ok("runtime.text"))
        .map(|symbol| symbol.address());
    let text = elf.section_by_name(".text");
    let text = text.map(|text| text.address());
    let endian = elf.endian();
    let code = elf
        .elf_program_headers()
        .iter()
        .filter(|segment| is_code(endian, segment))
        .map(|segment| Segment {
            address: segment.p_vaddr(endian),
            part: Part {
                offset: segment.p_offset(endian),
                length: segment.p_filesz(endian),
            },
        });
    Some(Image {
        machine,
        code: code.collect(),
        starts: start.take(1).chain(text).collect(),
        functions,
        build_info,
    })
}

/// Why TLS in a program in Go is not looked into, if it has any.
pub fn go_refusal(file: &File) -> Option<Refusal> {
    let refusal = go_functions(file)?.err()?;
    (refusal != Refusal::NoTls).then_some(refusal)
}

type Elf<'a> = ElfFile<'a, FileHeader64<Endianness>, &'a ReadCache<&'a File>>;

/// Calls `look` with the name and the address of each interesting symbol that a file defines.
fn each_function(file: &File, mut look: impl FnMut(&Elf<'_>, &str, u64)) {
    let cache = ReadCache::new(file);
    let Ok(elf) = Elf::parse(&cache) else { return };
    if has_large_tables(&elf) {
        return;
    }
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.is_undefined() || symbol.address() == 0 {
            continue;
        }
        // Most names differ in the first letters.
        if let Ok(name) = symbol.name()
            && ["SSL_", "gnutls_", "PR_"]
                .iter()
                .any(|known| name.starts_with(known))
        {
            look(&elf, name, symbol.address());
        }
    }
}

fn has_large_tables(elf: &Elf<'_>) -> bool {
    elf.sections()
        .any(|section| is_table(&section) && section.size() > TABLE_MAX)
}

fn is_table<'a>(section: &impl object::ObjectSection<'a>) -> bool {
    use object::SectionKind::{Metadata, OtherString};
    matches!(section.kind(), Metadata | OtherString)
}

/// An address's offset in the file.
fn offset(elf: &Elf<'_>, address: u64) -> Option<u64> {
    let endian = elf.endian();
    elf.elf_program_headers().iter().find_map(|segment| {
        let start = segment.p_vaddr(endian);
        let is_here = is_code(endian, segment)
            && (start..start.checked_add(segment.p_filesz(endian))?).contains(&address);
        is_here.then(|| address - start + segment.p_offset(endian))
    })
}

fn is_code(endian: Endianness, segment: &ProgramHeader64<Endianness>) -> bool {
    segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X != 0
}

/// Files that usually are TLS libraries, or contain one.
pub fn tls_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for directory in directories() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if ["libssl.so", "libgnutls.so", "libssl3.so", "libnspr4.so"]
                .iter()
                .any(|known| name.starts_with(known))
            {
                places.push(entry.path());
            }
        }
    }
    // By name: NSPR, which moves the bytes, comes before NSS, which makes the objects.
    places.sort();
    for directory in ["/usr/bin", "/usr/local/bin", "/opt/node/bin"] {
        places.push(Path::new(directory).join("node"));
    }
    places
}

/// Where libraries are: `/usr/lib64`, `/usr/lib`, and its per-architecture directories.
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
