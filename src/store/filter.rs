//! Which objects of a kind are asked for, and the WHERE clause that says so.

use crate::model::meta::Key;

/// Which objects of a kind.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// None: of every namespace.
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Whether clusters and claims come whole.
    pub whole: bool,
}

impl Filter {
    pub fn named(key: &Key) -> Self {
        Self { namespace: Some(key.namespace.clone()), name: Some(key.name.clone()), whole: false }
    }

    /// The conditions that are asked for, as a WHERE clause, and their values; `#` stands for the
    /// value. A condition that is not asked for is not there: `?1 IS NULL OR x = ?1` makes SQLite
    /// scan the whole table.
    pub(super) fn conditions(&self, namespace: &str, name: Option<&str>) -> (String, Vec<&str>) {
        let mut clauses = Vec::new();
        let mut values = Vec::new();
        for (value, clause) in [(&self.namespace, Some(namespace)), (&self.name, name)] {
            let (Some(value), Some(clause)) = (value, clause) else { continue };
            values.push(value.as_str());
            clauses.push(clause.replace('#', &format!("?{}", values.len())));
        }
        if clauses.is_empty() {
            return (String::new(), values);
        }
        (format!("WHERE {}", clauses.join(" AND ")), values)
    }
}
