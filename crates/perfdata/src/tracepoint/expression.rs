//! Arguments of a `print fmt`.

use super::eval::{constant, row_number};
use super::expr::Expr;
use super::fields::{Field, size_of_type};
use super::tokens::Token;

/// Brackets and casts may nest this deep: reading recurses. The kernel's
/// masks of allocation flags nest 40 deep.
const DEEPEST: u32 = 256;

/// Operators in one `print fmt` that are not constant: evaluating recurses.
const MOST_OPERATORS: u32 = 1000;

/// How tightly a binary operator binds; `None` for other marks.
fn binding(mark: &str) -> Option<u32> {
    Some(match mark {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | ">" | "<=" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}

/// Reads expressions from tokens, by recursive descent.
pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: u32,
    operators: u32,
    fields: &'a [Field],
}

impl<'a> Parser<'a> {
    pub(super) fn new(tokens: &'a [Token], fields: &'a [Field]) -> Self {
        Self {
            tokens,
            at: 0,
            depth: 0,
            operators: 0,
            fields,
        }
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&'a Token> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Steps over `mark` if it comes next.
    pub(super) fn skip(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Mark(next)) if *next == mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Option<()> {
        self.skip(mark).then_some(())
    }

    fn one_of(&mut self, marks: &[&'static str]) -> Option<&'static str> {
        let &Token::Mark(next) = self.peek()? else {
            return None;
        };
        let found = marks.iter().find(|mark| **mark == next)?;
        self.at += 1;
        Some(found)
    }

    /// String literals in a row, joined as C does.
    pub(super) fn text(&mut self) -> Option<Vec<u8>> {
        let mut joined = Vec::new();
        let start = self.at;
        while let Some(Token::Text(text)) = self.peek() {
            joined.extend(text);
            self.at += 1;
        }
        (self.at > start).then_some(joined)
    }

    /// One argument; `None` if it is not understood.
    pub(super) fn expression(&mut self) -> Option<Expr> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.skip("?") {
                return Some(condition);
            }
            let one = parser.expression()?;
            parser.expect(":")?;
            let other = parser.expression()?;
            parser.built(Expr::Choice(condition.into(), one.into(), other.into()))
        })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Operands joined by operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u32) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some(&Token::Mark(operator)) = self.peek() {
            let Some(tightness) = binding(operator).filter(|&found| found >= least) else {
                break;
            };
            self.at += 1;
            let right = self.binary(tightness + 1)?;
            left = self.built(Expr::Binary(operator, left.into(), right.into()))?;
        }
        Some(left)
    }

    /// A new operator: its value if its operands are numbers. `None` if there
    /// are too many.
    fn built(&mut self, expression: Expr) -> Option<Expr> {
        let is_number = |inner: &Expr| matches!(inner, Expr::Number(_));
        let is_constant = match &expression {
            Expr::Binary(_, left, right) => is_number(left) && is_number(right),
            Expr::Unary(_, inner) | Expr::Cast(_, inner) => is_number(inner),
            _ => false,
        };
        if is_constant {
            return Some(Expr::Number(constant(&expression)));
        }
        self.operators += 1;
        (self.operators <= MOST_OPERATORS).then_some(expression)
    }

    fn unary(&mut self) -> Option<Expr> {
        self.deeper(|parser| {
            if let Some(operator) = parser.one_of(&["!", "~", "-", "+"]) {
                let operand = parser.unary()?.into();
                return parser.built(Expr::Unary(operator, operand));
            }
            if parser.skip("*") {
                let base = parser.unary()?;
                return parser.built(Expr::Index(base.into(), Expr::Number(0).into()));
            }
            if parser.skip("&") {
                // The address of a field: as an argument, the field itself.
                return parser.unary();
            }
            if let Some((size, is_pointer)) = parser.cast() {
                let operand = parser.unary()?.into();
                return parser.built(if is_pointer {
                    Expr::Pointer(size, operand)
                } else {
                    Expr::Cast(size, operand)
                });
            }
            parser.postfix()
        })
    }

    /// `(type)` with an operand behind it: bytes of the type (of what it
    /// points to), and whether it is a pointer.
    fn cast(&mut self) -> Option<(usize, bool)> {
        let start = self.at;
        let found = self.type_in_brackets();
        let operand_follows = match self.peek() {
            Some(Token::Mark(mark)) => matches!(*mark, "(" | "~" | "!" | "-" | "&" | "*"),
            Some(Token::Word(_) | Token::Number(_) | Token::Text(_)) => true,
            None => false,
        };
        if found.is_none() || !operand_follows {
            self.at = start;
            return None;
        }
        found
    }

    fn type_in_brackets(&mut self) -> Option<(usize, bool)> {
        self.expect("(")?;
        let mut words: Vec<&str> = Vec::new();
        let mut pointers = 0;
        loop {
            match self.next()? {
                Token::Word(word) if pointers == 0 && word != "REC" => words.push(word),
                Token::Mark("*") if !words.is_empty() => pointers += 1,
                Token::Mark(")") if !words.is_empty() => break,
                _ => return None,
            }
        }
        // A type that is not known leaves the value as it is.
        let size = if pointers > 1 {
            8
        } else {
            size_of_type(&words.join(" ")).unwrap_or(8)
        };
        Some((size, pointers > 0))
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut operand = self.operand()?;
        while self.skip("[") {
            let index = self.expression()?;
            self.expect("]")?;
            operand = self.built(Expr::Index(operand.into(), index.into()))?;
        }
        Some(operand)
    }

    fn operand(&mut self) -> Option<Expr> {
        if matches!(self.peek(), Some(Token::Text(_))) {
            return self.text().map(Expr::Text);
        }
        match self.next()? {
            Token::Number(value) => Some(Expr::Number(*value)),
            Token::Mark("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Some(inner)
            }
            Token::Word(word) if word == "REC" => {
                self.expect("->")?;
                self.field_name().map(Expr::Field)
            }
            Token::Word(word) if self.skip("(") => {
                let call = self.call(word)?;
                self.expect(")")?;
                Some(call)
            }
            Token::Word(word) => Some(Expr::Word(word.clone())),
            Token::Mark(_) | Token::Text(_) => None,
        }
    }

    fn field_name(&mut self) -> Option<usize> {
        let Token::Word(name) = self.next()? else {
            return None;
        };
        self.fields.iter().position(|field| &field.name == name)
    }

    fn argument(&mut self) -> Option<Box<Expr>> {
        let argument = self.expression()?;
        self.skip(",");
        Some(argument.into())
    }

    /// What is between the brackets of a call.
    fn call(&mut self, function: &str) -> Option<Expr> {
        Some(match function {
            "__get_str" | "__get_rel_str" => Expr::Str(self.field_name()?),
            "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr" => Expr::Array(self.field_name()?),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Expr::ArrayLength(self.field_name()?)
            }
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                Expr::Bitmask(self.field_name()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.argument()?;
                // Without a delimiter the names follow each other.
                let delimiter = match self.expression()? {
                    Expr::Text(text) => text,
                    _ => Vec::new(),
                };
                self.skip(",");
                Expr::Flags(value, delimiter, self.table()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                Expr::Symbolic(self.argument()?, self.table()?)
            }
            "__print_hex" => Expr::Hex(self.argument()?, self.argument()?, true),
            "__print_hex_str" => Expr::Hex(self.argument()?, self.argument()?, false),
            "__print_array" => Expr::Numbers(self.argument()?, self.argument()?, self.argument()?),
            "__builtin_expect" => {
                let value = self.argument()?;
                self.argument()?;
                *value
            }
            "sizeof" => self.size_of()?,
            _ => return None,
        })
    }

    fn size_of(&mut self) -> Option<Expr> {
        let start = self.at;
        if let Some(Expr::Field(index)) = self.expression() {
            let size = self.fields.get(index)?.size;
            return Some(Expr::Number(size as u64));
        }
        self.at = start;
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.as_str());
            self.at += 1;
        }
        let size = size_of_type(&words.join(" "))?;
        let size = if self.skip("*") { 8 } else { size };
        Some(Expr::Number(size as u64))
    }

    /// `{ number, "name" }, …` up to the closing bracket of the call.
    fn table(&mut self) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut rows = Vec::new();
        // Newer kernels wrap the rows in one more pair of braces.
        let is_wrapped = matches!(
            self.tokens.get(self.at..self.at + 2),
            Some([Token::Mark("{"), Token::Mark("{")])
        );
        self.at += usize::from(is_wrapped);
        while self.skip("{") {
            if self.skip("}") {
                break;
            }
            let value = row_number(&self.expression()?);
            self.expect(",")?;
            let name = match self.expression()? {
                Expr::Text(text) => text,
                Expr::Word(word) => word.into_bytes(),
                Expr::Number(number) => number.to_string().into_bytes(),
                // The row that ends a table has no name.
                Expr::Pointer(..) => Vec::new(),
                _ => return None,
            };
            self.skip(",");
            self.expect("}")?;
            rows.push((value, name));
            if !self.skip(",") {
                break;
            }
        }
        if is_wrapped {
            self.expect("}")?;
        }
        Some(rows)
    }
}
