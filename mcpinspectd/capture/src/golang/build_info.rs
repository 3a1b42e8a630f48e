//! What Go records about how a program was built: which version, and with which settings.

use memchr::memmem;

use super::file_part::{FilePart, ReadAt};
use super::image::Refusal;

const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Where the flags are, and where texts begin.
const FLAGS_AT: usize = 15;
const TEXT_AT: usize = 32;
/// The texts follow, as they have since Go 1.18.
const INLINE: u8 = 2;
/// The oldest supported version of Go: 1.21.
const OLDEST: u32 = 21;
/// Bytes to read.
const READ_MAX: u64 = 1 << 20;
/// Bytes of a version.
const VERSION_MAX: usize = 100;
/// How the setting that names a profile begins.
const PROFILE: &[u8] = b"\nbuild\t-pgo=";

/// Whether a program that was built this way is supported.
///
/// # Errors
/// It is not.
pub(super) fn judge(part: &mut FilePart<'_, impl ReadAt + ?Sized>) -> Result<(), Refusal> {
    let bytes = part.prefix(READ_MAX).ok_or(Refusal::Unknown)?;
    if !bytes.starts_with(MAGIC) {
        return Err(Refusal::Unknown);
    }
    let flags = bytes.get(FLAGS_AT).ok_or(Refusal::Unknown)?;
    if flags & INLINE == 0 {
        return Err(Refusal::TooOld("Go 1.17 or older".into()));
    }
    let mut rest = bytes.get(TEXT_AT..).ok_or(Refusal::Unknown)?;
    let version = text(&mut rest).ok_or(Refusal::Unknown)?;
    let minor = minor(version).ok_or(Refusal::Unknown)?;
    if minor < OLDEST {
        return Err(Refusal::TooOld(format!("Go 1.{minor}")));
    }
    // There are none if something other than `go build` built it.
    let settings = text(&mut rest).unwrap_or_default();
    if memmem::find(settings, PROFILE).is_some() {
        return Err(Refusal::WithProfile);
    }
    Ok(())
}

/// Takes a text off the start of `rest`. Its length comes first, seven bits to a byte.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    for (number, byte) in rest.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * number);
        if byte & 0x80 == 0 {
            let text = rest.get(number + 1..)?.get(..length)?;
            *rest = &rest[number + 1 + length..];
            return Some(text);
        }
    }
    None
}

/// The second number of a version, such as 25 of `go1.25.5`, `go1.25rc1` and `devel go1.25-abc`.
fn minor(version: &[u8]) -> Option<u32> {
    let version = std::str::from_utf8(version.get(..version.len().min(VERSION_MAX))?).ok()?;
    let (_, minor) = version.split_once("go1.")?;
    let end = minor
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(minor.len());
    minor[..end].parse().ok()
}
