//! The environment variables of abide. Each has an `ABIDE_` name and an `OPENCODE_` alias with lower precedence.

use crate::world::World;

/// Returns the value of `ABIDE_<name>`, else of `OPENCODE_<name>`; an empty value counts as unset.
pub fn variable<'a>(world: &'a World, name: &str) -> Option<&'a str> {
    let own = format!("ABIDE_{name}");
    if world.environment().contains_key(&own) {
        return world.var(&own);
    }
    world.var(&format!("OPENCODE_{name}"))
}

/// Says whether `ABIDE_<name>`, else `OPENCODE_<name>`, is `1`, `true`, `yes` or `on`.
pub fn is_set(world: &World, name: &str) -> bool {
    variable(world, name).is_some_and(is_true)
}

/// Says whether a text means yes: `1`, `true`, `yes`, `on` in any case.
pub fn is_true(text: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|yes| text.eq_ignore_ascii_case(yes))
}
