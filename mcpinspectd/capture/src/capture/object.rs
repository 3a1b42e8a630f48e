//! Finds maps and programs by name in the loaded object.

use std::os::fd::{AsFd as _, BorrowedFd};

use aya::Ebpf;
use aya::maps::{Map, MapError};
use aya::programs::{Program, ProgramError, RawTracePoint};

use super::error::ProbeError;

/// Takes the map `name` out of the object.
pub(super) fn map<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, ProbeError>
where
    T: TryFrom<Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or(ProbeError::Incomplete(name))?;
    T::try_from(map).map_err(|error| ProbeError::Map { map: name, error })
}

/// Maps the array `name` into memory; it stays in the object.
pub(super) fn mapped<T>(
    ebpf: &Ebpf,
    name: &'static str,
    map: impl FnOnce(BorrowedFd<'_>) -> nix::Result<T>,
) -> Result<T, ProbeError> {
    let Some(Map::Array(data)) = ebpf.map(name) else {
        return Err(ProbeError::Incomplete(name));
    };
    Ok(map(data.fd().as_fd()).map_err(std::io::Error::from)?)
}

/// Finds the program `name`.
pub(super) fn program<'a, P>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut P, ProbeError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    ebpf.program_mut(name)
        .ok_or(ProbeError::Incomplete(name))?
        .try_into()
        .map_err(|error| ProbeError::Program {
            program: name,
            error,
        })
}

/// Attaches the loaded program `name` to a raw tracepoint.
pub(super) fn attach_raw(
    ebpf: &mut Ebpf,
    name: &'static str,
    tracepoint: &str,
) -> Result<(), ProbeError> {
    let program: &mut RawTracePoint = program(ebpf, name)?;
    program
        .attach(tracepoint)
        .map(|_| ())
        .map_err(|error| ProbeError::refused(name, error))
}
