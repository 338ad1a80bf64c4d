//! What is known of an address, and how much of it is wanted.

use prof_profile::{Svma, UnnamedReason};
use std::sync::Arc;

/// How much to find out about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// The name of the function; reads symbol tables only.
    Symbol,
    /// Also the functions inlined there, without the lines they are at.
    Inlines,
    /// Also source lines.
    #[default]
    Source,
}

/// A function symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// As shown; demangled if so configured.
    pub name: Arc<str>,
    /// Its first address.
    pub start: Svma,
    /// Its length in bytes; without a size of its own, up to the next symbol.
    pub size: u64,
}

/// One function at an address, inlined or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// The function's name.
    pub name: Arc<str>,
    /// The source file of the executing line.
    pub file: Option<Arc<str>>,
    /// The line in that file, from 1; 0 if unknown.
    pub line: u32,
    /// Whether the function was inlined into the next frame.
    pub is_inline: bool,
    /// Where the function is defined: file and line.
    pub defined_at: Option<(Arc<str>, u32)>,
}

/// A piece of code that belongs to one source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRow {
    /// Its first address; it reaches to the next row.
    pub address: Svma,
    /// Path of the source file.
    pub file: Option<Arc<str>>,
    /// From 1; 0 if the code belongs to no line.
    pub line: u32,
}

/// What is known of an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lookup {
    /// The function that stands there, if it has a name.
    pub symbol: Option<Symbol>,
    /// Innermost first; the last one is `symbol`. Empty without a name.
    pub frames: Vec<SourceFrame>,
    /// Why there is no name.
    pub reason: Option<UnnamedReason>,
    /// The function's first address and its length in bytes, if it has no name
    /// but unwind information tells its extent.
    pub extent: Option<(Svma, u64)>,
}

impl Lookup {
    /// An address without a name.
    pub fn unnamed(reason: UnnamedReason) -> Self {
        Self {
            reason: Some(reason),
            ..Self::default()
        }
    }

    /// An address of which only the function is known.
    pub(crate) fn of_symbol(symbol: Symbol) -> Self {
        Self {
            frames: vec![SourceFrame {
                name: Arc::clone(&symbol.name),
                file: None,
                line: 0,
                is_inline: false,
                defined_at: None,
            }],
            symbol: Some(symbol),
            reason: None,
            extent: None,
        }
    }
}
