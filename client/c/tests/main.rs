//! libsluice from compiled C programs: against an agent in this process, and against a real one.

mod c;
mod live;
