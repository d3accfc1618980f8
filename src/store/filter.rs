//! Which objects of a kind are asked for, and the WHERE clause that says so. Nothing here runs a
//! query.

use crate::model::meta::Key;

/// Which objects of a kind are asked for. The default asks for all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Only objects of this name.
    pub name: Option<String>,
    /// Whether the objects come with what is kept beside their rows, such as the documents of
    /// clusters and claims.
    pub whole: bool,
}

impl Filter {
    /// The object of a name, without what is kept beside its row.
    pub fn named(key: &Key) -> Self {
        Self { namespace: Some(key.namespace.clone()), name: Some(key.name.clone()), whole: false }
    }

    /// The object of a name with everything that is kept beside its row.
    pub fn named_whole(key: &Key) -> Self {
        Self { whole: true, ..Self::named(key) }
    }

    /// The WHERE clause of the filter and the values of its parameters; both are empty if all
    /// objects are asked for. `namespace` and `name` are the conditions of the two, such as `name =
    /// #`, where `#` stands for the parameter.
    ///
    /// A condition that is not asked for is left out of the clause. One that is always there, such
    /// as `?1 IS NULL OR name = ?1`, would make SQLite read the whole table.
    pub(super) fn where_clause(&self, namespace: &str, name: Option<&str>) -> (String, Vec<&str>) {
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        for (value, condition) in [(&self.namespace, Some(namespace)), (&self.name, name)] {
            let (Some(value), Some(condition)) = (value, condition) else { continue };
            values.push(value.as_str());
            conditions.push(condition.replace('#', &format!("?{}", values.len())));
        }
        if conditions.is_empty() {
            return (String::new(), values);
        }
        (format!("WHERE {}", conditions.join(" AND ")), values)
    }
}
