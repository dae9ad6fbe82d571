/*
 * DPDK's meter and RED behind plain functions, so that the benchmark `dpdk` can time them in its own process.
 * Every loop is here, so that no call per packet is charged to the peer.
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_meter.h>
#include <rte_prefetch.h>
#include <rte_red.h>
#include <stdint.h>
#include <stdlib.h>

static struct rte_meter_trtcm_profile profile;
static struct rte_meter_trtcm *meters;
static struct rte_red_config red_config[3];
static struct rte_red red[3];

/* Starts the environment on one core without huge pages or devices; 0 on success. */
int peer_start(const char *core)
{
	char *argv[] = {"peer",       "-l", (char *)core, "--no-huge",      "--no-pci",
			"--no-shconf", "-m", "512",       "--log-level=1", "--no-telemetry"};
	return rte_eal_init(10, argv) < 0 ? -1 : 0;
}

uint64_t peer_hz(void) { return rte_get_tsc_hz(); }

/* `count` trTCM meters of one profile; rates in bytes/s, bursts in bytes. */
int peer_trtcm_new(uint32_t count, uint64_t cir, uint64_t cbs, uint64_t pir, uint64_t pbs)
{
	struct rte_meter_trtcm_params params = {.cir = cir, .pir = pir, .cbs = cbs, .pbs = pbs};
	if (rte_meter_trtcm_profile_config(&profile, &params))
		return -1;
	free(meters);
	meters = aligned_alloc(64, ((size_t)count * sizeof *meters + 63) / 64 * 64);
	if (!meters)
		return -1;
	for (uint32_t i = 0; i < count; i++)
		if (rte_meter_trtcm_config(&meters[i], &profile))
			return -1;
	return 0;
}

/* Meters n packets, `gap` cycles apart from `now`; with `ahead`, prefetches that many packets ahead. */
void peer_trtcm_run(const uint32_t *meter, const uint32_t *len, uint64_t n, uint64_t now, uint64_t gap, uint32_t ahead,
		    uint8_t *color)
{
	for (uint64_t i = 0; i < n; i++) {
		if (ahead && i + ahead < n)
			rte_prefetch0(&meters[meter[i + ahead]]);
		now += gap;
		color[i] = rte_meter_trtcm_color_blind_check(&meters[meter[i]], &profile, now, len[i]);
	}
}

/* Three RED curves; thresholds in packets, maxp_inv = 1 / max_p. */
int peer_red_new(const uint16_t min[3], const uint16_t max[3], const uint16_t maxp_inv[3])
{
	for (int i = 0; i < 3; i++)
		if (rte_red_config_init(&red_config[i], 9, min[i], max[i], maxp_inv[i]) || rte_red_rt_data_init(&red[i]))
			return -1;
	return 0;
}

/* Decides n arrivals at a queue of `queued` packets. Counts accepted ones. */
uint64_t peer_red_run(const uint8_t *color, uint64_t n, uint32_t queued, uint64_t now, uint64_t gap)
{
	uint64_t accepted = 0;
	for (uint64_t i = 0; i < n; i++) {
		now += gap;
		accepted += rte_red_enqueue(&red_config[color[i]], &red[color[i]], queued, now) == 0;
	}
	return accepted;
}
