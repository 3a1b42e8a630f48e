//! What a survey reports about a process.

/// A row of a survey's output: a descriptor table of a tracked process. A process whose threads have
/// their own tables has several.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurveyRow {
    /// The process (thread group), in the initial pid namespace.
    pub tgid: u32,
    /// 1 if one of its descriptors leads to a watched endpoint, or if the table is too large to tell.
    pub busy: u32,
}
