//! What kernels between 4.9 and the newest differ in, in one place: what may be
//! given up where it is missing, and what was asked for and cannot be had.

mod features;
mod ladder;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use features::Why;
pub(crate) use features::{Unknown, unknown_to};
pub(crate) use ladder::{is_lacking, open_best};
