//! Queries over the inventory of a host, in the part of the jq language that classifications of
//! hosts are written in. It reads and evaluates; what follows from the result is not its business.

mod evaluate;
mod parse;

use std::str::FromStr;

use serde_json::Value;

/// The longest query, in bytes.
const MAX_LENGTH: usize = 1024;

/// What of jq is understood, for people.
const UNDERSTOOD: &str = "understood are paths (.cpu.count, .disks[].sizeBytes), numbers, \
    \"texts\", true, false, null, == != < <= > >=, + - * /, and, or, |, [ ], ( ), not, length, \
    select(..), map(..), any, all, any(..), all(..), min, max, add, keys, has(\"..\"), contains(..), \
    startswith(\"..\"), endswith(\"..\"), ascii_downcase";

/// A query that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Query(Expression);

/// A part of a query. Each makes values of the value that it is given.
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    /// The value itself.
    Identity,
    Literal(Value),
    /// The field of an object.
    Field(Box<Self>, String),
    /// An element of an array; from its end if negative.
    Element(Box<Self>, i64),
    /// Each element of an array, or each value of an object.
    Elements(Box<Self>),
    /// The same without errors.
    Optional(Box<Self>),
    /// The second for each value of the first.
    Pipe(Box<Self>, Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
    /// All values in one array.
    Array(Option<Box<Self>>),
    Call(Function, Option<Box<Self>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Not,
    Length,
    Select,
    Map,
    Any,
    All,
    Min,
    Max,
    Add,
    Keys,
    Has,
    Contains,
    StartsWith,
    EndsWith,
    AsciiDowncase,
}

/// How many arguments a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arity {
    None,
    One,
    NoneOrOne,
}

impl Function {
    const ALL: [(&'static str, Self, Arity); 15] = [
        ("not", Self::Not, Arity::None),
        ("length", Self::Length, Arity::None),
        ("select", Self::Select, Arity::One),
        ("map", Self::Map, Arity::One),
        ("any", Self::Any, Arity::NoneOrOne),
        ("all", Self::All, Arity::NoneOrOne),
        ("min", Self::Min, Arity::None),
        ("max", Self::Max, Arity::None),
        ("add", Self::Add, Arity::None),
        ("keys", Self::Keys, Arity::None),
        ("has", Self::Has, Arity::One),
        ("contains", Self::Contains, Arity::One),
        ("startswith", Self::StartsWith, Arity::One),
        ("endswith", Self::EndsWith, Arity::One),
        ("ascii_downcase", Self::AsciiDowncase, Arity::None),
    ];
}

impl FromStr for Query {
    type Err = String;

    /// The error says where the query is not understood, and what is.
    fn from_str(query: &str) -> Result<Self, String> {
        if query.len() > MAX_LENGTH {
            return Err(format!("it has {} bytes; the limit is {MAX_LENGTH}", query.len()));
        }
        let expression = parse::parse(query).map_err(|why| format!("{why}; {UNDERSTOOD}"))?;
        Ok(Self(expression))
    }
}

impl Query {
    /// Whether a document meets the query: it must make one value, and that must be true. The error
    /// says why that cannot be told. All of this is as in assisted-service.
    pub fn is_met(&self, document: &Value) -> Result<bool, String> {
        let values = evaluate::evaluate(&self.0, document)?;
        match values.as_slice() {
            [value] => Ok(*value == Value::Bool(true)),
            [] => Err("Expected boolean, found no values".into()),
            [..] => Err("Expected boolean, found multiple values".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(query: &str, expected: Result<bool, &str>) {
        let host = json!({
            "cpu": {"count": 16, "architecture": "x86_64", "flags": ["vmx", "sse4_2"]},
            "memory": {"physicalBytes": 68_719_476_736_u64},
            "disks": [
                {"name": "sda", "driveType": "HDD", "sizeBytes": 1_000_000_000_000_u64},
                {"name": "nvme0n1", "driveType": "SSD", "sizeBytes": 2_000_000_000_000_u64},
            ],
            "systemVendor": {"manufacturer": "Dell Inc."},
        });
        let met = query.parse::<Query>().and_then(|query| query.is_met(&host));
        match expected {
            Ok(is_met) => assert_eq!(met, Ok(is_met), "{query}"),
            Err(why) => {
                let problem = met.expect_err(query);
                assert!(problem.contains(why), "{query}: {problem}");
            }
        }
    }

    #[test]
    fn queries_as_people_write_them_are_met_or_not() {
        for (query, is_met) in [
            (".cpu.count == 16 and .memory.physicalBytes >= 4294967296", true),
            (".cpu.count == 2 or (.cpu.count >= 8 and .memory.physicalBytes < 8589934592)", false),
            (".memory.physicalBytes >= 64 * 1024 * 1024 * 1024", true),
            ("[.disks[] | select(.driveType == \"SSD\")] | length >= 1", true),
            ("[.disks[] | select(.sizeBytes > 1500000000000)] | length == 2", false),
            (".disks | map(.sizeBytes) | add > 2500000000000", true),
            (".disks | any(.driveType == \"HDD\")", true),
            (".cpu.flags | contains([\"vmx\"])", true),
            (".systemVendor.manufacturer | ascii_downcase | startswith(\"dell\")", true),
            (".gpus | length > 0", false),
            (".gpus == null", true),
            (".disks[-1].name == \"nvme0n1\" and (.disks[5].name == null)", true),
            (".cpu | has(\"count\") | not", false),
            ("[.gpus[]?] | length == 0", true),
            ("true", true),
            (".cpu.count", false),
        ] {
            check(query, Ok(is_met));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is() {
        for (query, why) in [
            ("", "it ends too early"),
            (".cpu.count ==", "it ends too early"),
            (".cpu.count = 2", "`=`"),
            ("test(\"x\")", "`test`"),
            ("all(.disks[]; true)", "`;`"),
            ("select", "`select` needs an argument"),
            ("length(.a)", "`length` takes no argument"),
            (".cpu.count == 2)", "`)`"),
            ("\"open", "a text is not closed"),
            (".disks[].name == \"sda\"", "found multiple values"),
            (".disks[] | select(.name == \"sdz\")", "found no values"),
            (".cpu.count | startswith(\"1\")", "startswith"),
            (".gpus[]", "null has no elements"),
        ] {
            check(query, Err(why));
        }
        let deep = format!("{}true{}", "(".repeat(400), ")".repeat(400));
        check(&deep, Err("nested"));
        assert!("if".parse::<Query>().unwrap_err().contains("understood are paths"));
    }
}
