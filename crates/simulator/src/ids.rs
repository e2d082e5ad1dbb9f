//! The ids of what a simulation creates and removes, by kind.

use headrace_model::pagecache::PageIo;
use headrace_model::slots::Id;

/// The kinds that have ids of their own; there are no values of these types.
pub(crate) mod kinds {
    #[derive(Debug)]
    pub(crate) enum Fetch {}
    #[derive(Debug)]
    pub(crate) enum Instance {}
    #[derive(Debug)]
    pub(crate) enum Job {}
    #[derive(Debug)]
    pub(crate) enum Op {}
    #[derive(Debug)]
    pub(crate) enum Rpc {}
    #[derive(Debug)]
    pub(crate) enum Task {}
    #[derive(Debug)]
    pub(crate) enum Thread {}
    #[derive(Debug)]
    pub(crate) enum Vector {}
}

pub(crate) type FetchId = Id<kinds::Fetch>;
pub(crate) type InstanceId = Id<kinds::Instance>;
pub(crate) type IoId = Id<PageIo>;
pub(crate) type JobId = Id<kinds::Job>;
pub(crate) type OpId = Id<kinds::Op>;
pub(crate) type RpcId = Id<kinds::Rpc>;
pub(crate) type TaskId = Id<kinds::Task>;
/// A thread of a data server.
pub(crate) type ThreadId = Id<kinds::Thread>;

pub(crate) type VectorId = Id<kinds::Vector>;

/// What a host's cores work for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// A job's process.
    Task(TaskId),
    /// A request, at the host that sends or serves it.
    Rpc(RpcId),
    /// What the system does beside the jobs.
    System,
}
