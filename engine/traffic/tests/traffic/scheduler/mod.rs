//! Schedulers behind a link: what each promises, held against its definition, and a table of each one's decisions.

mod drr;
mod hfsc_change;
mod hfsc_choice;
mod hfsc_guarantee;
mod hfsc_sharing;
mod htb;
mod link;
mod priority;
mod wf2q;
