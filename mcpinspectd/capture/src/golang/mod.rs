//! Programs in Go: where their functions for TLS begin and return.
//!
//! What a program in Go encrypts goes through `crypto/tls`, which is compiled into it. Probes at functions of
//! Go differ from those in libraries in C: a return cannot be hooked by changing the return address, because
//! the stack is copied when it grows, so the return instructions themselves have to be found; and arguments
//! are in registers that Go chose. A probe in the wrong place would break the program. So a place is used only
//! if the machine code there begins as Go's functions do, with the goroutine in its register, and can be
//! decoded to its end.
//!
//! Even a stripped program has everything needed, because the runtime uses it: the table of functions
//! (`function_table`) and the version it was built by (`build_info`). The file may be as large or as
//! damaged as its owner likes: reads are bounded (`file_part`), and anything inconsistent is refused.

mod build_info;
mod file_part;
mod function_table;
mod image;
mod returns;
#[cfg(test)]
mod tests;

pub use self::file_part::ReadAt;
use self::file_part::{Budget, FilePart};
use self::function_table::{Extent, FunctionTable};
pub use self::image::{Function, Image, Part, Refusal, Segment, TlsFunctions};
pub use self::returns::Machine;

/// The methods of `crypto/tls.(*Conn)` that matter.
const READ: &str = "Read";
const WRITE: &str = "Write";
const HANDSHAKES: [&str; 2] = ["clientHandshake", "serverHandshake"];
/// Most bytes of machine code of one function.
const CODE_MAX: u64 = 64 << 10;
/// Most bytes to read of one file: twice the tables of the largest programs.
const READ_MAX: u64 = 256 << 20;

/// Finds the TLS functions in a program in Go.
///
/// # Errors
/// It has none, or they cannot be relied on.
pub fn tls_functions(
    file: &(impl ReadAt + ?Sized),
    image: &Image,
) -> Result<TlsFunctions, Refusal> {
    let budget = Budget::new(READ_MAX);
    let mut table = FilePart::new(file, image.functions, &budget);
    let table = FunctionTable::read(&mut table).ok_or(Refusal::Unknown)?;
    let mut names = vec![READ, WRITE];
    names.extend(HANDSHAKES);
    let mut part = FilePart::new(file, image.functions, &budget);
    let found = table.find(&mut part, &names).ok_or(Refusal::Unknown)?;
    let [Some(read), Some(write), handshakes @ ..] = found.as_slice() else {
        return Err(Refusal::NoTls);
    };
    let handshakes: Vec<Extent> = handshakes.iter().flatten().copied().collect();
    if handshakes.is_empty() {
        return Err(Refusal::NoTls);
    }
    let mut build_info = FilePart::new(file, image.build_info, &budget);
    build_info::judge(&mut build_info)?;
    let functions_at = |start: u64| {
        let function = |extent: Extent| {
            let part = image.part(start.checked_add(extent.entry)?, extent.length)?;
            let code = FilePart::new(file, part, &budget).all(CODE_MAX)?;
            let returns = returns::find(image.machine, &code)?;
            Some(Function {
                entry: part.offset,
                returns: returns.into_iter().map(|at| part.offset + at).collect(),
            })
        };
        let handshakes = handshakes
            .iter()
            .map(|extent| Some(function(*extent)?.entry));
        Some(TlsFunctions {
            read: function(*read)?,
            write: function(*write)?,
            handshakes: handshakes.collect::<Option<_>>()?,
        })
    };
    let starts = std::iter::once(table.start()).chain(image.starts.iter().copied());
    starts
        .filter(|start| *start != 0)
        .find_map(functions_at)
        .ok_or(Refusal::Unknown)
}
