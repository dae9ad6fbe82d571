//! Queueing disciplines and classes: RTM_*QDISC, RTM_*TCLASS (`linux/pkt_sched.h`).
