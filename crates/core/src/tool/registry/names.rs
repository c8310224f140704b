//! Names of tools and namespaces (spec/tools.md 4.4).

use abide_schema::tool::ToolOptions;

use super::draft::RegistrationError;

/// The longest name: several providers cut there.
const MAX_NAME: usize = 64;

/// Returns the effective name of a tool: what the provider sees.
pub(super) fn effective(name: &str, options: &ToolOptions) -> Result<String, RegistrationError> {
    let normalized = normalize(name);
    if !is_segment(&normalized) {
        return Err(RegistrationError::Name(name.to_owned()));
    }
    let Some(namespace) = &options.namespace else {
        reserved(&normalized, options)?;
        return Ok(normalized);
    };
    check_namespace(namespace)?;
    let effective = format!("{}_{normalized}", namespace.replace('.', "_"));
    if !options.codemode && effective.len() > MAX_NAME {
        return Err(RegistrationError::TooLong(effective));
    }
    reserved_direct(&effective, options)?;
    Ok(effective)
}

/// Checks a namespace: dot-separated segments.
pub(super) fn check_namespace(namespace: &str) -> Result<(), RegistrationError> {
    if namespace.split('.').all(is_segment) { Ok(()) } else { Err(RegistrationError::Namespace(namespace.to_owned())) }
}

fn normalize(name: &str) -> String {
    name.chars().map(|char| if is_plain(char) { char } else { '_' }).collect()
}

fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == '-'
}

fn is_segment(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_plain)
}

fn reserved(name: &str, options: &ToolOptions) -> Result<(), RegistrationError> {
    if options.codemode && name == "search" {
        return Err(RegistrationError::Reserved(name.to_owned()));
    }
    reserved_direct(name, options)
}

fn reserved_direct(name: &str, options: &ToolOptions) -> Result<(), RegistrationError> {
    if !options.codemode && name == "execute" {
        return Err(RegistrationError::Reserved(name.to_owned()));
    }
    Ok(())
}
