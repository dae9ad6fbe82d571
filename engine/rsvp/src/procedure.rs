//! The form of a procedure that works on all parts: a type that borrows them for one input.

/// Declares a procedure, whose parts are private to its file and to the files below it; `measured`: some of its steps
/// are reported to the probe.
macro_rules! procedure {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub(crate) struct $name<'a, P, E> {
            env: &'a mut E,
            state: &'a mut crate::state::State,
            signalling: &'a mut crate::signalling::Signalling,
            probe: &'a mut P,
        }

        impl<'a, P: terms::probe::ProbeObserver, E: crate::links::Env> $name<'a, P, E> {
            /// With the parts that it works on.
            pub(crate) fn new(
                env: &'a mut E,
                state: &'a mut crate::state::State,
                signalling: &'a mut crate::signalling::Signalling,
                probe: &'a mut P,
            ) -> $name<'a, P, E> {
                $name { env, state, signalling, probe }
            }
        }
    };
    ($(#[$doc:meta])* $name:ident, measured) => {
        crate::procedure::procedure! {
            $(#[$doc])*
            $name
        }

        impl<P: terms::probe::ProbeObserver, E> $name<'_, P, E> {
            /// Does a step of handling a message, and reports its begin and end to the probe.
            #[inline(always)]
            fn step<T>(&mut self, step: terms::probe::ProbePoint, work: impl FnOnce(&mut Self) -> T) -> T {
                self.probe.enter(step);
                let done = work(self);
                self.probe.leave(step);
                done
            }
        }
    };
}

pub(crate) use procedure;
