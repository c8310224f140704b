//! Which addresses a page may be fetched from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use abide_schema::permission::{Effect, Rule};
use url::{Host, Url};

use crate::permission::{Judge, deciding};
use crate::shell::judge::strictest;

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// On the public internet, or not known: then a proxy may know it.
    Public,
    /// On this machine or in a private network: only a rule that names it, or the user, allows it.
    Private,
    /// Where machines of a cloud get their credentials, or link-local: never.
    Refused,
}

/// A host, looked up once: what was judged is what is connected to.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) standing: Standing,
    /// Empty: the host is an address itself, or could not be looked up.
    pub(super) addresses: Vec<SocketAddr>,
}

/// Names under which clouds serve the credentials of a machine.
const METADATA_NAMES: &[&str] = &["metadata.google.internal", "metadata", "instance-data", "metadata.azure.internal"];

/// Looks up the host of a URL.
///
/// # Cancel safety
/// Cancel safe.
pub(super) async fn locate(url: &Url) -> Located {
    let standing = match url.host() {
        None => Standing::Refused,
        Some(Host::Ipv4(address)) => standing_of(address.into()),
        Some(Host::Ipv6(address)) => standing_of(address.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            if METADATA_NAMES.contains(&name.as_str()) {
                return Located { standing: Standing::Refused, addresses: Vec::new() };
            }
            let port = url.port_or_known_default().unwrap_or(443);
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            let addresses: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
            let is_local = name == "localhost" || name.ends_with(".localhost");
            let named = if is_local { Standing::Private } else { Standing::Public };
            // The strictest of all: any of them may be connected to.
            let standing = addresses.iter().map(|address| standing_of(address.ip())).fold(named, Ord::max);
            return Located { standing, addresses };
        }
    };
    Located { standing, addresses: Vec::new() }
}

/// Says where an address lies.
pub(super) fn standing_of(address: IpAddr) -> Standing {
    match address {
        IpAddr::V4(address) => standing_v4(address),
        IpAddr::V6(address) => standing_v6(address),
    }
}

fn standing_v4(address: Ipv4Addr) -> Standing {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        // Link-local, with the usual place of metadata; and where some clouds have theirs.
        (169, 254, ..) | (100, 100, 100, 200) | (192, 0, 0, 192) | (168, 63, 129, 16) => Standing::Refused,
        (0 | 10 | 127, ..) | (100, 64..=127, ..) | (172, 16..=31, ..) | (192, 168, ..) | (192, 0, 0, _) => {
            Standing::Private
        }
        // For benchmarks, for everybody, and reserved.
        (198, 18..=19, ..) | (224.., ..) => Standing::Private,
        _ => Standing::Public,
    }
}

fn standing_v6(address: Ipv6Addr) -> Standing {
    if let Some(inner) = embedded(address) {
        return standing_v4(inner);
    }
    let [first, second, .., last] = address.segments();
    if first & 0xffc0 == 0xfe80 || (first, second, last) == (0xfd00, 0x0ec2, 0x0254) {
        return Standing::Refused;
    }
    let is_private = address.is_loopback() || address.is_unspecified() || first & 0xfe00 == 0xfc00 || first >= 0xfec0;
    if is_private { Standing::Private } else { Standing::Public }
}

/// Returns the older address that a newer one stands for.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => join(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => join(high, low),
        [0x2002, high, low, ..] => join(high, low),
        _ => None,
    }
}

/// Decides about a private address: a rule for everything does not allow it.
#[derive(Clone, Debug)]
pub(super) struct PrivateJudge {
    pub(super) action: &'static str,
    /// All spellings of the URL.
    pub(super) urls: Vec<String>,
}

impl PrivateJudge {
    fn rule<'r>(&self, url: &str, rules: &'r [Rule]) -> Option<&'r Rule> {
        deciding(self.action, url, std::path::Path::new("/"), rules)
    }

    fn effect(&self, url: &str, configured: &[Rule], saved: &[Rule]) -> Effect {
        let is_narrow = |rule: &Rule| rule.resource.chars().any(|letter| letter != '*');
        let given = |rules| {
            let rule = self.rule(url, rules).filter(|rule| rule.effect != Effect::Allow || is_narrow(rule));
            rule.map(|rule| rule.effect)
        };
        match given(configured) {
            Some(effect @ (Effect::Deny | Effect::Allow)) => effect,
            Some(Effect::Ask) | None => given(saved).unwrap_or(Effect::Ask),
        }
    }
}

impl Judge for PrivateJudge {
    fn decide(&self, configured: &[Rule], saved: &[Rule]) -> Effect {
        let effects = self.urls.iter().map(|url| self.effect(url, configured, saved));
        effects.fold(Effect::Allow, strictest)
    }

    fn denying(&self, configured: &[Rule]) -> Vec<Rule> {
        let rules = self.urls.iter().filter_map(|url| self.rule(url, configured));
        let mut denying: Vec<Rule> = rules.filter(|rule| rule.effect == Effect::Deny).cloned().collect();
        denying.dedup();
        denying
    }
}
