//! For whom an address is leased, and until when: what the annotations of its IPClaim say. Who holds
//! the lease is said elsewhere.

use super::annotations::{COMMENT, DNS_NAME, MAC, OWNER, UNTIL};
use super::ip_lease::IpLease;
use super::time::{Span, Time};

impl IpLease {
    fn purpose(&self, annotation: &str) -> Option<&str> {
        self.stored_claim_meta()?.annotation(annotation).filter(|value| !value.is_empty())
    }

    /// The names of the machine in DNS, the most important one first.
    pub fn dns_names(&self) -> impl Iterator<Item = &str> {
        let names = self.purpose(DNS_NAME).unwrap_or_default().split(',').map(str::trim);
        names.filter(|name| !name.is_empty())
    }

    /// The MAC of the machine: lower-case letters, and colons.
    pub fn mac(&self) -> Option<String> {
        Some(self.purpose(MAC)?.to_ascii_lowercase().replace('-', ":"))
    }

    /// The guest behind sudo who has made the claim; none if the state's owner has.
    pub fn owner(&self) -> Option<&str> {
        self.purpose(OWNER)
    }

    /// What somebody wants to be known of the lease.
    pub fn comment(&self) -> &str {
        self.purpose(COMMENT).unwrap_or_default()
    }

    /// When the lease ends by itself. The lease of a cluster ends with its cluster.
    pub fn expires_at(&self) -> Option<Time> {
        if self.holder.is_some() {
            return None;
        }
        self.purpose(UNTIL)?.parse().ok()
    }

    /// When somebody is to be warned of the end: half an hour before it, or a quarter of the time
    /// that the lease has if that is shorter.
    pub fn expiry_warning_due_at(&self) -> Option<Time> {
        let end = self.expires_at()?;
        let lifetime = end.since(self.created);
        let notice = Span((lifetime.0 / 4).min(Span::minutes(30).0));
        Some(Time(end.0 - notice.0))
    }

    /// Whether somebody was warned of the end that the lease has now.
    pub fn is_warned_of_expiry(&self) -> bool {
        self.warned_until.is_some() && self.warned_until == self.expires_at()
    }

    /// When something is to be done about the end of the lease.
    pub fn expiry_instants(&self) -> impl Iterator<Item = Time> {
        let end = if self.deleting.is_some() { None } else { self.expires_at() };
        let warning = if end.is_some() && !self.is_warned_of_expiry() {
            self.expiry_warning_due_at()
        } else {
            None
        };
        [warning, end].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease_until(until: &str) -> IpLease {
        let mut lease =
            IpLease { created: "2026-03-02T12:00:00Z".parse().unwrap(), ..IpLease::default() };
        lease.claim_meta_mut().annotations.insert(UNTIL.to_owned(), until.to_owned());
        lease
    }

    #[test]
    fn a_warning_comes_half_an_hour_or_a_quarter_of_the_time_before_the_end() {
        for (until, warning) in [
            ("2026-03-02T20:00:00Z", "2026-03-02T19:30:00Z"),
            ("2026-03-02T13:00:00Z", "2026-03-02T12:45:00Z"),
            ("2026-03-02T11:00:00Z", "2026-03-02T11:00:00Z"),
        ] {
            let mut lease = lease_until(until);
            let instants: Vec<String> =
                lease.expiry_instants().map(|instant| instant.to_string()).collect();
            assert_eq!(instants, [warning, until]);
            lease.warned_until = lease.expires_at();
            assert_eq!(lease.expiry_instants().count(), 1, "{until}");
        }
        assert_eq!(lease_until("").expiry_instants().count(), 0);
    }
}
