//! Formulas of metrics (perf's `util/expr.y`):
//!
//! ```text
//! all  = sum-like [ if all else all ]        | ^ & < > + - * / % by precedence
//! item = number | event | #literal | ( all ) | - item
//!      | min(a, b) | max(a, b) | d_ratio(a, b) | source_count(event) | has_event(event)
//! ```
//!
//! In a name `@` stands for `/`, and `\\` before `,`, `-` and `=`.

use std::collections::{BTreeMap, BTreeSet};

/// Parts of a formula nested deeper than this are refused.
const DEEPEST: usize = 64;
/// The most nodes of a formula with all metrics that it is made of.
const MOST_NODES: usize = 1 << 16;

/// A formula.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A number.
    Number(f64),
    /// The count of an event, or another metric.
    Name(String),
    /// What the machine has: `#smt_on`.
    Literal(String),
    /// Whether an event was counted.
    IsCounted(String),
    /// Two parts.
    Pair(Operator, Box<[Expression; 2]>),
    /// `a if b else c`, in that order.
    Choice(Box<[Expression; 3]>),
}

/// What is done with two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    Xor,
    And,
    Less,
    More,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Least,
    Most,
    /// Division that gives 0 where it cannot be done.
    Ratio,
}

/// What a formula asks for.
pub(super) enum Value<'a> {
    /// The count of an event.
    Event(&'a str),
    /// A property of the machine, without its `#`.
    Literal(&'a str),
}

impl Expression {
    /// Reads a formula; says what is wrong and where otherwise.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        let all = parser.choice()?;
        match parser.peek() {
            None => Ok(all),
            Some(_) => Err(parser.wrong("an operator")),
        }
    }

    /// Puts the formulas of other metrics in the place of their names.
    pub(super) fn expand<'a>(
        &mut self,
        formula_of: &impl Fn(&str) -> Option<&'a str>,
    ) -> Result<(), String> {
        let mut nodes = 0;
        self.expand_within(formula_of, &mut Vec::new(), &mut nodes)
    }

    fn expand_within<'a>(
        &mut self,
        formula_of: &impl Fn(&str) -> Option<&'a str>,
        within: &mut Vec<String>,
        nodes: &mut usize,
    ) -> Result<(), String> {
        *nodes += 1;
        if *nodes > MOST_NODES {
            return Err("it is made of too many metrics".to_owned());
        }
        match self {
            Self::Name(name) => {
                let Some(formula) = formula_of(name) else {
                    return Ok(());
                };
                if within.contains(name) || within.len() > DEEPEST {
                    return Err(format!("{name} is made of itself"));
                }
                let mut inner = Self::parse(formula)?;
                within.push(name.clone());
                inner.expand_within(formula_of, within, nodes)?;
                within.pop();
                *self = inner;
                Ok(())
            }
            Self::Pair(_, parts) => {
                let mut parts = parts.iter_mut();
                parts.try_for_each(|part| part.expand_within(formula_of, within, nodes))
            }
            Self::Choice(parts) => {
                let mut parts = parts.iter_mut();
                parts.try_for_each(|part| part.expand_within(formula_of, within, nodes))
            }
            Self::Number(_) | Self::Literal(_) | Self::IsCounted(_) => Ok(()),
        }
    }

    /// The events that it is made of, on a machine with these literals.
    pub(super) fn names(&self, literals: &BTreeMap<&'static str, f64>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.collect(literals, &mut names);
        names
    }

    fn collect(&self, literals: &BTreeMap<&'static str, f64>, names: &mut BTreeSet<String>) {
        match self {
            Self::Name(name) | Self::IsCounted(name) => {
                names.insert(name.clone());
            }
            Self::Pair(_, parts) => parts.iter().for_each(|part| part.collect(literals, names)),
            Self::Choice(parts) => {
                let [then, condition, otherwise] = parts.as_ref();
                let mut needed = condition.names(literals);
                // A part that this machine never needs is not counted.
                let value = needed.is_empty().then(|| {
                    condition.evaluate(&|value| match value {
                        Value::Literal(name) => literals.get(name).copied(),
                        Value::Event(_) => None,
                    })
                });
                names.append(&mut needed);
                if value != Some(0.0) {
                    then.collect(literals, names);
                }
                if value.is_none_or(|value| value == 0.0) {
                    otherwise.collect(literals, names);
                }
            }
            Self::Number(_) | Self::Literal(_) => {}
        }
    }

    /// Its value; NaN if something it needs was not counted.
    pub(super) fn evaluate(&self, value: &impl Fn(Value<'_>) -> Option<f64>) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(name) => value(Value::Event(name)).unwrap_or(f64::NAN),
            Self::Literal(name) => value(Value::Literal(name)).unwrap_or(f64::NAN),
            Self::IsCounted(name) => flag(value(Value::Event(name)).is_some()),
            Self::Choice(parts) => {
                let [then, condition, otherwise] = parts.as_ref();
                let chosen = if condition.evaluate(value) != 0.0 {
                    then
                } else {
                    otherwise
                };
                chosen.evaluate(value)
            }
            Self::Pair(operator, parts) => {
                let [left, right] = parts.as_ref();
                operator.apply(left.evaluate(value), right.evaluate(value))
            }
        }
    }
}

fn flag(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        let whole = |of: fn(i64, i64) -> i64| of(left as i64, right as i64) as f64;
        match self {
            Self::Or => whole(|a, b| a | b),
            Self::Xor => whole(|a, b| a ^ b),
            Self::And => whole(|a, b| a & b),
            Self::Less => flag(left < right),
            Self::More => flag(left > right),
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            // perf: not a number, where others have infinity.
            Self::Divide | Self::Remainder if right == 0.0 => f64::NAN,
            Self::Divide => left / right,
            Self::Remainder => whole(|a, b| a.checked_rem(b).unwrap_or(0)),
            Self::Least => left.min(right),
            Self::Most => left.max(right),
            Self::Ratio if right == 0.0 => 0.0,
            Self::Ratio => left / right,
        }
    }
}

/// Operators between two parts, those that bind less first.
const LEVELS: [&[(u8, Operator)]; 6] = [
    &[(b'|', Operator::Or)],
    &[(b'^', Operator::Xor)],
    &[(b'&', Operator::And)],
    &[(b'<', Operator::Less), (b'>', Operator::More)],
    &[(b'+', Operator::Add), (b'-', Operator::Subtract)],
    &[
        (b'*', Operator::Multiply),
        (b'/', Operator::Divide),
        (b'%', Operator::Remainder),
    ],
];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<u8> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().bytes().next()
    }

    fn takes(&mut self, character: u8) -> bool {
        let is_it = self.peek() == Some(character);
        self.at += usize::from(is_it);
        is_it
    }

    /// A word that stands alone.
    fn takes_word(&mut self, word: &str) -> bool {
        self.peek();
        let Some(behind) = self.rest().strip_prefix(word) else {
            return false;
        };
        let alone = !behind.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        if alone {
            self.at += word.len();
        }
        alone
    }

    fn wrong(&self, wanted: &str) -> String {
        match self.rest().split_whitespace().next() {
            Some(word) => format!("{wanted} is missing before {word}"),
            None => format!("{wanted} is missing at its end"),
        }
    }

    fn choice(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("it is nested too deep".to_owned());
        }
        let then = self.level(0)?;
        let all = if self.takes_word("if") {
            let condition = self.level(0)?;
            if !self.takes_word("else") {
                return Err(self.wrong("else"));
            }
            Expression::Choice(Box::new([then, condition, self.choice()?]))
        } else {
            then
        };
        self.depth -= 1;
        Ok(all)
    }

    fn level(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.item();
        };
        let mut left = self.level(level + 1)?;
        while let Some(&(_, operator)) = {
            let next = self.peek();
            operators.iter().find(|&&(sign, _)| Some(sign) == next)
        } {
            self.at += 1;
            let right = self.level(level + 1)?;
            left = Expression::Pair(operator, Box::new([left, right]));
        }
        Ok(left)
    }

    fn item(&mut self) -> Result<Expression, String> {
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let inner = self.choice()?;
                self.closed(inner)
            }
            Some(b'-') => {
                self.at += 1;
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err("it is nested too deep".to_owned());
                }
                let item = self.item()?;
                self.depth -= 1;
                let zero = Expression::Number(0.0);
                Ok(Expression::Pair(Operator::Subtract, Box::new([zero, item])))
            }
            Some(b'#') => {
                self.at += 1;
                Ok(Expression::Literal(self.name()?))
            }
            Some(b'0'..=b'9' | b'.') => match self.number() {
                Some(number) => Ok(Expression::Number(number)),
                None => self.name().map(Expression::Name),
            },
            _ => self.call_or_name(),
        }
    }

    fn closed(&mut self, inner: Expression) -> Result<Expression, String> {
        if self.takes(b')') {
            Ok(inner)
        } else {
            Err(self.wrong(")"))
        }
    }

    fn call_or_name(&mut self) -> Result<Expression, String> {
        let name = self.name()?;
        if self.peek() != Some(b'(') {
            return Ok(Expression::Name(name));
        }
        self.at += 1;
        let operator = match name.as_str() {
            "min" => Operator::Least,
            "max" => Operator::Most,
            "d_ratio" => Operator::Ratio,
            "has_event" | "source_count" => {
                let event = self.name()?;
                return self.closed(Expression::IsCounted(event));
            }
            _ => return Err(format!("{name} is no function")),
        };
        let left = self.choice()?;
        if !self.takes(b',') {
            return Err(self.wrong("a comma"));
        }
        let right = self.choice()?;
        self.closed(Expression::Pair(operator, Box::new([left, right])))
    }

    /// Digits with a point and an exponent; `None` if letters follow, as in the
    /// name of an event.
    fn number(&mut self) -> Option<f64> {
        let rest = self.rest();
        let digits = |text: &str| {
            text.len()
                - text
                    .trim_start_matches(|it: char| it.is_ascii_digit() || it == '.')
                    .len()
        };
        let mut length = digits(rest);
        let behind = rest.get(length..).unwrap_or_default();
        if let Some(exponent) = behind.strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['-', '+']));
            let of_exponent = digits(exponent.get(sign..).unwrap_or_default());
            if of_exponent > 0 {
                length += 1 + sign + of_exponent;
            }
        }
        let behind = rest.get(length..).unwrap_or_default();
        if behind.starts_with(|next: char| next.is_alphanumeric() || "_@:".contains(next)) {
            return None;
        }
        let number = rest.get(..length)?.parse().ok()?;
        self.at += length;
        Some(number)
    }

    fn name(&mut self) -> Result<String, String> {
        self.peek();
        let mut name = String::new();
        let mut characters = self.rest().chars();
        while let Some(character) = characters.next() {
            match character {
                '@' => name.push('/'),
                '\\' => name.extend(characters.next()),
                it if it.is_ascii_alphanumeric() || "_.:?".contains(it) => name.push(it),
                _ => break,
            }
            self.at = self.text.len() - characters.as_str().len();
        }
        if name.is_empty() {
            Err(self.wrong("a number or an event"))
        } else {
            Ok(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Expression, Value};

    fn value(formula: &str) -> f64 {
        let formula = Expression::parse(formula).expect(formula);
        formula.evaluate(&|name| match name {
            Value::Event("a") => Some(6.0),
            Value::Event("b") => Some(4.0),
            Value::Event("cpu/event=0x1,cmask=2/") => Some(7.0),
            Value::Event("zero") => Some(0.0),
            Value::Literal("smt_on") => Some(1.0),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_binds_as_perfs() {
        for (formula, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("2 - 3 - 4", -5.0),
            ("-a + 1", -5.0),
            ("a / b", 1.5),
            ("7 % 4", 3.0),
            ("1e3 + .5", 1000.5),
            ("1 | 6 & 3 ^ 5", 7.0),
            ("a > b", 1.0),
            ("a < b + 3", 1.0),
            ("min(a, b) + max(a,b)", 10.0),
            ("d_ratio(a, zero)", 0.0),
            ("d_ratio(a, b)", 1.5),
            ("a if #smt_on else b", 6.0),
            ("a if 0 else b if 0 else 2", 2.0),
            ("1 - a if a > 10 else 3", 3.0),
            ("cpu@event\\=0x1\\,cmask\\=2@ + 1", 8.0),
            ("has_event(a) + has_event(none)", 1.0),
        ] {
            assert_eq!(value(formula), expected, "{formula}");
        }
        assert!(value("a / zero").is_nan());
        assert!(value("a + missing").is_nan());
    }

    #[test]
    fn what_is_no_formula_says_where() {
        for (formula, words) in [
            ("", "a number or an event is missing at its end"),
            ("1 +", "missing at its end"),
            ("(a", ") is missing"),
            ("a b", "an operator is missing before b"),
            ("a if b", "else is missing"),
            ("sqrt(a)", "sqrt is no function"),
            ("min(a)", "a comma is missing"),
        ] {
            let error = Expression::parse(formula).expect_err(formula);
            assert!(error.contains(words), "{formula}: {error}");
        }
        let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(Expression::parse(&deep).is_err());
        assert!(Expression::parse(&"-".repeat(5000)).is_err());
    }
}
