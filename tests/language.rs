//! How the code of `src` reads, in figures that may not get worse: names of bindings and functions,
//! closures that are really functions, conditions that hide in iterators, public items without
//! documentation. The figures are a floor; whether code reads well is for its readers to say.

use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprMethodCall, Ident, ImplItemConst, ImplItemFn, ItemConst, ItemEnum, ItemFn,
    ItemMod, ItemStruct, ItemTrait, ItemType, Local, Member, Pat, PatIdent, Signature, Visibility,
};

use crate::architecture::{root, rust_files};

/// Names that say nothing about what they are bound to.
const VAGUE_NAMES: [&str; 32] = [
    "one", "all", "found", "text", "known", "other", "others", "what", "who", "how", "said",
    "which", "some", "its", "new", "old", "here", "there", "it", "that", "this", "these", "those",
    "mine", "theirs", "good", "made", "done", "gone", "thing", "stuff", "tmp",
];
const MIN_MEDIAN_LENGTH_OF_FUNCTION_NAMES: usize = 9;
/// Of a thousand bindings.
const MAX_VAGUE_BINDINGS: usize = 20;
/// In ten thousand lines.
const MAX_NAMED_CLOSURES: usize = 20;
const MAX_PAIRS: usize = 5;
const MAX_REBINDINGS: usize = 15;

#[derive(Default)]
struct Figures {
    lines: usize,
    bindings: usize,
    vague_bindings: usize,
    /// `let is_open = |pool: &IpPool| ...;`
    named_closures: usize,
    /// `.filter(|_| condition)`
    constant_filters: Vec<String>,
    /// `let (a, b) = (x, y);`
    pairs: usize,
    /// `let pool = pool.trim();`
    rebindings: usize,
    function_names: Vec<String>,
    file: String,
}

impl Figures {
    fn of_source() -> Self {
        let mut figures = Self::default();
        for path in rust_files(&root().join("src")) {
            let code = std::fs::read_to_string(&path).unwrap();
            figures.lines += code.lines().count();
            figures.file = path.strip_prefix(root()).unwrap().display().to_string();
            figures.visit_file(&syn::parse_file(&code).unwrap());
        }
        figures
    }

    fn in_ten_thousand_lines(&self, count: usize) -> usize {
        count * 10_000 / self.lines
    }

    fn median_length_of_function_names(&self) -> usize {
        let mut lengths: Vec<usize> = self.function_names.iter().map(String::len).collect();
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    }
}

fn is_test_module(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// The variable that an expression begins with: `pool` of `pool.spec.name.trim()`.
fn first_variable(expression: &Expr) -> Option<String> {
    match expression {
        Expr::MethodCall(call) => first_variable(&call.receiver),
        Expr::Field(field) if matches!(field.member, Member::Named(_)) => {
            first_variable(&field.base)
        }
        Expr::Try(attempt) => first_variable(&attempt.expr),
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

fn name_of_binding(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(binding) => Some(binding.ident.to_string()),
        Pat::Type(typed) => name_of_binding(&typed.pat),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Figures {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test_module(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.function_names.push(signature.ident.to_string());
        visit::visit_signature(self, signature);
    }

    fn visit_pat_ident(&mut self, binding: &'ast PatIdent) {
        let name = binding.ident.to_string();
        // A capital letter begins a constant or a variant, which nothing is bound to.
        if name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            self.bindings += 1;
            self.vague_bindings += usize::from(VAGUE_NAMES.contains(&name.as_str()));
        }
        visit::visit_pat_ident(self, binding);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if let Some(init) = &local.init {
            let name = name_of_binding(&local.pat);
            match (&local.pat, &*init.expr) {
                (_, Expr::Closure(_)) => self.named_closures += 1,
                (Pat::Tuple(names), Expr::Tuple(values))
                    if names.elems.len() == 2 && values.elems.len() == 2 =>
                {
                    self.pairs += 1;
                }
                (_, expression) if name.is_some() && first_variable(expression) == name => {
                    self.rebindings += usize::from(!matches!(expression, Expr::Path(_)));
                }
                _ => {}
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if call.method == "filter"
            && let Some(Expr::Closure(closure)) = call.args.first()
            && matches!(closure.inputs.first(), Some(Pat::Wild(_)))
        {
            self.constant_filters.push(self.file.clone());
        }
        visit::visit_expr_method_call(self, call);
    }
}

#[test]
fn names_say_what_they_stand_for_and_conditions_are_ifs() {
    let figures = Figures::of_source();
    let vague = figures.vague_bindings * 1000 / figures.bindings;
    assert!(
        vague <= MAX_VAGUE_BINDINGS,
        "{vague} of 1,000 bindings are called one, all, found ..."
    );
    for (name, count, limit) in [
        ("named closures", figures.named_closures, MAX_NAMED_CLOSURES),
        ("pairs bound at once", figures.pairs, MAX_PAIRS),
        ("names bound again to a part of themselves", figures.rebindings, MAX_REBINDINGS),
    ] {
        let rate = figures.in_ten_thousand_lines(count);
        assert!(rate <= limit, "{rate} {name} in 10,000 lines, more than {limit}");
    }
    let filters = &figures.constant_filters;
    assert!(filters.is_empty(), "`.filter(|_| ..)` instead of `if`: {filters:#?}");
    let median = figures.median_length_of_function_names();
    assert!(median >= MIN_MEDIAN_LENGTH_OF_FUNCTION_NAMES, "functions have names of {median}");
}

/// The public items that have no documentation, as `FILE: NAME`.
#[derive(Default)]
struct UndocumentedItems {
    file: String,
    items: Vec<String>,
}

impl UndocumentedItems {
    fn check(&mut self, visibility: &Visibility, attributes: &[Attribute], name: &Ident) {
        let is_documented = attributes.iter().any(|attribute| attribute.path().is_ident("doc"));
        if matches!(visibility, Visibility::Public(_)) && !is_documented {
            self.items.push(format!("{}: {name}", self.file));
        }
    }
}

impl<'ast> Visit<'ast> for UndocumentedItems {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test_module(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.check(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.check(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_impl_item_const(&mut self, item: &'ast ImplItemConst) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }
}

#[test]
fn whatever_is_public_has_documentation() {
    let mut undocumented = UndocumentedItems::default();
    for path in rust_files(&root().join("src")) {
        let code = std::fs::read_to_string(&path).unwrap();
        undocumented.file = path.strip_prefix(root()).unwrap().display().to_string();
        undocumented.visit_file(&syn::parse_file(&code).unwrap());
    }
    assert!(undocumented.items.is_empty(), "{:#?}", undocumented.items);
}
