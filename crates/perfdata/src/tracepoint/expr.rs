//! An argument of a `print fmt`, as it was read.

/// An argument, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// A number.
    Number(u64),
    /// A string literal.
    Text(Vec<u8>),
    /// A name that means nothing here: prints as itself, counts as 0.
    Word(String),
    /// `REC->name`: a field, by its index.
    Field(usize),
    /// `__get_dynamic_array(name)`: where the bytes of a field begin.
    Array(usize),
    /// `__get_dynamic_array_len(name)`, in bytes.
    ArrayLength(usize),
    /// `__get_str(name)`.
    Str(usize),
    /// `__get_bitmask(name)`, `__get_cpumask(name)`.
    Bitmask(usize),
    /// `__print_flags(value, delimiter, {bits, name}, …)`.
    Flags(Box<Expr>, Vec<u8>, Vec<(u64, Vec<u8>)>),
    /// `__print_symbolic(value, {number, name}, …)`.
    Symbolic(Box<Expr>, Vec<(u64, Vec<u8>)>),
    /// `__print_hex(bytes, count)`; `true`: bytes apart.
    Hex(Box<Expr>, Box<Expr>, bool),
    /// `__print_array(array, count, element size)`.
    Numbers(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A cast to a number of so many bytes.
    Cast(usize, Box<Expr>),
    /// A cast to a pointer to elements of so many bytes.
    Pointer(usize, Box<Expr>),
    /// An element of an array.
    Index(Box<Expr>, Box<Expr>),
    /// `!`, `~`, `-`, `+`.
    Unary(&'static str, Box<Expr>),
    /// Two operands.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `condition ? one : other`.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
}
