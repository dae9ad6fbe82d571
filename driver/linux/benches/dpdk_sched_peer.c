/*
 * DPDK's hierarchical scheduler behind plain functions, so that the benchmark `dpdk_sched` can time it in its own
 * process. Every loop is here, so that no call per packet is charged to the peer. One port, one subport, and one
 * best-effort queue in each pipe; rates so high that only the order is decided.
 */
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RATE 12500000000ull /* bytes/s: 100 Gb/s */
#define BURST 32

static struct rte_sched_port *port;
static struct rte_mbuf *mbufs;
static struct rte_mbuf *fly[BURST];

int peer_start(const char *core)
{
	char *argv[] = {"peer",       "-l", (char *)core, "--no-huge",      "--no-pci",
			"--no-shconf", "-m", "512",       "--log-level=1", "--no-telemetry"};
	return rte_eal_init(10, argv) < 0 ? -1 : 0;
}

/* A port with `pipes` leaves (a power of two), each holding `waiting` packets of `len` bytes; 0 on success. */
int peer_sched_new(uint32_t pipes, uint32_t waiting, uint32_t len)
{
	const int be = RTE_SCHED_TRAFFIC_CLASS_BE;
	struct rte_sched_subport_profile_params subport_profile = {.tb_rate = RATE, .tb_size = 1000000, .tc_period = 10};
	struct rte_sched_pipe_params pipe = {.tb_rate = RATE, .tb_size = 1000000, .tc_period = 40, .tc_ov_weight = 1};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe, .n_pipe_profiles = 1, .n_max_pipe_profiles = 1};
	struct rte_sched_port_params params = {.name = "peer",
					       .socket = 0,
					       .rate = RATE,
					       .mtu = 1522,
					       .frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
					       .n_subports_per_port = 1,
					       .subport_profiles = &subport_profile,
					       .n_subport_profiles = 1,
					       .n_max_subport_profiles = 1,
					       .n_pipes_per_subport = pipes};
	for (int i = 0; i <= be; i++)
		subport_profile.tc_rate[i] = RATE;
	pipe.tc_rate[be] = RATE;
	subport.qsize[be] = 64;
	memset(pipe.wrr_weights, 1, sizeof pipe.wrr_weights);
	if (port)
		rte_sched_port_free(port);
	port = rte_sched_port_config(&params);
	if (!port || rte_sched_subport_config(port, 0, &subport, 0))
		return -1;
	for (uint32_t i = 0; i < pipes; i++)
		if (rte_sched_pipe_config(port, 0, i, 0))
			return -2;
	size_t count = (size_t)pipes * waiting + BURST;
	free(mbufs);
	mbufs = aligned_alloc(64, count * sizeof *mbufs);
	if (!mbufs)
		return -3;
	memset(mbufs, 0, count * sizeof *mbufs);
	for (size_t i = 0; i < count; i++) {
		mbufs[i].pkt_len = len;
		mbufs[i].data_len = len;
	}
	for (size_t i = 0; i < (size_t)pipes * waiting; i++) {
		struct rte_mbuf *m = &mbufs[i];
		rte_sched_port_pkt_write(port, m, 0, i % pipes, be, 0, RTE_COLOR_GREEN);
		if (rte_sched_port_enqueue(port, &m, 1) != 1)
			return -4;
	}
	for (int i = 0; i < BURST; i++)
		fly[i] = &mbufs[(size_t)pipes * waiting + i];
	return 0;
}

/* n packets in bursts of 32: as many out as in. Backlogged: what goes out is put back; otherwise 32 come for the
 * pipes that `order` (of 65,536) says, and all go out. Returns what went out. */
uint64_t peer_sched_run(uint64_t n, const uint32_t *order, int backlogged)
{
	uint64_t out = 0;
	uint32_t at = 0;
	struct rte_mbuf *burst[BURST];
	for (uint64_t i = 0; i < n / BURST; i++) {
		if (!backlogged) {
			for (int k = 0; k < BURST; k++)
				rte_sched_port_pkt_write(port, fly[k], 0, order[at++ & 65535], RTE_SCHED_TRAFFIC_CLASS_BE, 0,
							 RTE_COLOR_GREEN);
			rte_sched_port_enqueue(port, fly, BURST);
		}
		/* It may hold packets back for a moment; whoever links a port calls it again. */
		uint32_t got = 0;
		for (int tries = 0; got < BURST && tries < 100000; tries++)
			got += rte_sched_port_dequeue(port, burst + got, BURST - got);
		if (backlogged)
			rte_sched_port_enqueue(port, burst, got);
		else
			memcpy(fly, burst, got * sizeof *burst);
		out += got;
		if (got < BURST)
			break;
	}
	return out;
}
