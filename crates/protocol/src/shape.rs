//! Shapes: which properties of our data the 1.18 contract knows. Data, not code: one entry for each type of event
//! and message. What a shape does not name is left out of the contract view and of the document.

mod events;
mod tables;

use serde_json::Value;

pub(crate) use events::live_names;
pub use events::{event_shape, live_shape};
pub use tables::{ADMITTED, AGENT, MESSAGE, PERMISSION_REQUEST, QUESTION_REQUEST, REVERT, SESSION};

/// What is left of a value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// All of it.
    Any,
    /// An object with these properties.
    Object(&'static ObjectShape),
    /// A list of such values; those that are no such value are left out.
    List(&'static Self),
    /// One of several objects.
    Tagged(&'static TaggedShape),
}

/// An object with some properties.
#[derive(Debug)]
pub struct ObjectShape {
    /// The component of the contract's document, if it is one.
    pub component: Option<&'static str>,
    /// The properties.
    pub fields: &'static [(&'static str, Shape)],
}

/// One of several objects, told apart by one property.
#[derive(Debug)]
pub struct TaggedShape {
    /// The component of the contract's document, if it is one.
    pub component: Option<&'static str>,
    /// The property.
    pub tag: &'static str,
    /// Its values.
    pub variants: &'static [(&'static str, &'static ObjectShape)],
}

impl Shape {
    /// Leaves out what the shape does not name. Returns false when the value is none of the shape's variants.
    pub fn prune(&self, value: &mut Value) -> bool {
        match self {
            Self::Any => true,
            Self::Object(object) => {
                object.prune(value);
                true
            }
            Self::List(item) => {
                if let Value::Array(items) = value {
                    items.retain_mut(|value| item.prune(value));
                }
                true
            }
            Self::Tagged(tagged) => {
                let found = value
                    .get(tagged.tag)
                    .and_then(Value::as_str)
                    .and_then(|tag| tagged.variants.iter().find(|(name, _)| *name == tag));
                let Some((_, object)) = found else { return false };
                object.prune(value);
                true
            }
        }
    }
}

impl ObjectShape {
    /// Returns the shape of a property.
    pub fn field(&self, name: &str) -> Option<&'static Shape> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, shape)| shape)
    }

    /// Leaves out what the shape does not name.
    pub fn prune(&self, value: &mut Value) {
        if let Value::Object(map) = value {
            map.retain(|name, value| self.field(name).is_some_and(|shape| shape.prune(value)));
        }
    }
}

macro_rules! objects {
    ($( $(#[$doc:meta])* $name:ident $(= $component:literal)? { $( $field:literal $(: $shape:expr)? ),* $(,)? } )*) => { $(
        $(#[$doc])*
        pub(crate) static $name: $crate::shape::ObjectShape = $crate::shape::ObjectShape {
            component: $crate::shape::component!($($component)?),
            fields: &[ $( ($field, $crate::shape::field!($($shape)?)), )* ],
        };
    )* };
}
macro_rules! component {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}
macro_rules! field {
    () => {
        $crate::shape::Shape::Any
    };
    ($shape:expr) => {
        $shape
    };
}
pub(crate) use {component, field, objects};

#[cfg(test)]
mod tests;
