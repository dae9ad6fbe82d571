//! The directory against real servers of LDAP.

mod slapd;
