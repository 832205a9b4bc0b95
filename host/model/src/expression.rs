//! Expressions over symbols, as exporters write them for sizes that follow from others:
//! `past + tokens`.

use std::collections::BTreeMap;

/// A size of an axis, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    Number(i64),
    Symbol(String),
    Operation(Box<Expression>, Operator, Box<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Parentheses within parentheses; real expressions have one or two.
const DEEPEST: u32 = 50;

impl Expression {
    /// Parses the text of an axis. A text that is not an expression is one symbol, whatever it holds. A minus
    /// is an operator only between spaces, because names such as `batch-size` have one.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        match parser.sum() {
            Some(expression) if parser.rest.trim_start().is_empty() => expression,
            _ => Self::Symbol(text.to_owned()),
        }
    }

    /// Returns the symbol, if the expression is nothing else.
    pub(crate) fn symbol(&self) -> Option<&str> {
        match self {
            Self::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// Returns all symbols, from left to right.
    pub(crate) fn symbols(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Symbol(symbol) => vec![symbol],
            Self::Operation(left, _, right) => [left.symbols(), right.symbols()].concat(),
        }
    }

    /// Returns the value; the outer `None` if a symbol has no size, the inner one if there is no such number. A
    /// division rounds down.
    pub(crate) fn value(&self, sizes: &BTreeMap<String, u64>) -> Option<Option<i64>> {
        Some(match self {
            Self::Number(number) => Some(*number),
            Self::Symbol(symbol) => i64::try_from(*sizes.get(symbol)?).ok(),
            Self::Operation(left, operator, right) => {
                match (left.value(sizes)?, right.value(sizes)?) {
                    (Some(left), Some(right)) => match operator {
                        Operator::Add => left.checked_add(right),
                        Operator::Subtract => left.checked_sub(right),
                        Operator::Multiply => left.checked_mul(right),
                        Operator::Divide => left.checked_div_euclid(right),
                    },
                    _ => None,
                }
            }
        })
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        loop {
            let operator = if self.take("+") {
                Operator::Add
            } else if self.rest.starts_with(" - ") {
                self.rest = &self.rest[3..];
                Operator::Subtract
            } else {
                return Some(left);
            };
            left = Expression::Operation(Box::new(left), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Option<Expression> {
        let mut left = self.atom()?;
        loop {
            let operator = if self.take("*") {
                Operator::Multiply
            } else if self.take("//") || self.take("/") {
                Operator::Divide
            } else {
                return Some(left);
            };
            left = Expression::Operation(Box::new(left), operator, Box::new(self.atom()?));
        }
    }

    fn atom(&mut self) -> Option<Expression> {
        if self.take("floor(") || self.take("(") {
            self.depth += 1;
            let inner = (self.depth <= DEEPEST).then(|| self.sum())??;
            self.depth -= 1;
            return self.take(")").then_some(inner);
        }
        self.rest = self.rest.trim_start();
        // A minus belongs to a name unless it is between spaces.
        let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '#');
        let end = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().ok().map(Expression::Number);
        }
        (!word.is_empty()).then(|| Expression::Symbol(word.to_owned()))
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Option<Option<i64>> {
        let sizes = [("past", 3), ("seq_len", 4), ("batch-size", 2), ("N", 7)];
        let sizes = sizes.map(|(name, size)| (name.to_owned(), size)).into();
        Expression::parse(text).value(&sizes)
    }

    #[test]
    fn expressions_are_evaluated() {
        assert_eq!(value("past + seq_len"), Some(Some(7)));
        assert_eq!(value("past+seq_len"), Some(Some(7)));
        assert_eq!(value("2*N - 1"), Some(Some(13)));
        assert_eq!(value("2 * (past + seq_len)"), Some(Some(14)));
        assert_eq!(value("floor(N/2) + 1"), Some(Some(4)));
        assert_eq!(value("past - seq_len"), Some(Some(-1)));
        assert_eq!(value("N / 0"), Some(None));
        assert_eq!(value("N * 9223372036854775807"), Some(None));
        assert_eq!(value("past + unknown"), None);
    }

    #[test]
    fn a_name_is_one_symbol() {
        for name in ["batch-size", "Sequence Length", "unk__614", "a (b", "é", "+", ""] {
            let parsed = Expression::parse(name);
            assert_eq!(parsed.symbol(), Some(name), "{parsed:?}");
        }
        assert_eq!(value("batch-size"), Some(Some(2)));
        assert_eq!(value("batch-size * 2"), Some(Some(4)));
        assert_eq!(Expression::parse("past + past + N").symbols(), ["past", "past", "N"]);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_to_an_end(text in ".{0,60}|[(+*/ a1-]{0,200}") {
            let _ = Expression::parse(&text).value(&BTreeMap::new());
        }
    }
}
