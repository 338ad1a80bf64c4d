// SPDX-License-Identifier: GPL-2.0
/*
 * A PMU without hardware that writes a known pattern into AUX areas, a piece with
 * each tick of a timer and at the end of each turn of a task. The word at byte 8*n
 * since the area was made is FIRST + 8*n. As `intel_bts` or `intel_pt` it is one
 * that stock perf records, too.
 */
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#define FIRST 0x400000ULL

static char *name = "intel_bts";
module_param(name, charp, 0444);
static unsigned long tick_us = 1000;
module_param(tick_us, ulong, 0444);
/* Of each piece, a multiple of 24, which is a record of branches. */
static unsigned long piece = 2400;
module_param(piece, ulong, 0444);

struct area {
	int pages;
	bool overwrite;
	u64 written;
	void *page[];
};

struct on_cpu {
	struct perf_output_handle handle;
	struct hrtimer timer;
	struct perf_event *event;
	struct area *area;
};

static DEFINE_PER_CPU(struct on_cpu, on_cpu);
static long (*copy_aux)(struct perf_output_handle *, struct perf_output_handle *,
			unsigned long, unsigned long);

static void *setup(struct perf_event *event, void **pages, int count, bool overwrite)
{
	struct area *area = kzalloc(struct_size(area, page, count), GFP_KERNEL);

	if (!area)
		return NULL;
	area->pages = count;
	area->overwrite = overwrite;
	memcpy(area->page, pages, count * sizeof(*pages));
	return area;
}

static void give_back(void *area)
{
	kfree(area);
}

static void put(struct area *area, u64 at, u64 word)
{
	at &= ((u64)area->pages << PAGE_SHIFT) - 1;
	*(u64 *)(area->page[at >> PAGE_SHIFT] + (at & ~PAGE_MASK)) = word;
}

/* Writes a piece, or as much of it as there is room for, and publishes it. */
static void publish(struct on_cpu *here)
{
	struct area *area = here->area;
	unsigned long room = here->handle.size & ~7UL, size = piece, done;
	u64 at = here->handle.head;

	if (area->overwrite)
		at = area->written;
	else if (room < size) {
		size = room;
		perf_aux_output_flag(&here->handle, PERF_AUX_FLAG_TRUNCATED);
	}
	for (done = 0; done < size; done += 8)
		put(area, at + done, FIRST + at + done);
	area->written = at + size;
	if (area->overwrite)
		here->handle.head = area->written & (((u64)area->pages << PAGE_SHIFT) - 1);
	perf_aux_output_end(&here->handle, size);
}

static void begin(struct on_cpu *here, struct perf_event *event)
{
	here->area = perf_aux_output_begin(&here->handle, event);
	here->event = here->area ? event : NULL;
	event->hw.state = here->area ? 0 : PERF_HES_STOPPED;
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct on_cpu *here = container_of(timer, struct on_cpu, timer);
	struct perf_event *event = here->event;

	if (!event)
		return HRTIMER_NORESTART;
	publish(here);
	begin(here, event);
	hrtimer_forward_now(timer, ns_to_ktime(tick_us * NSEC_PER_USEC));
	return here->event ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static void start(struct perf_event *event, int flags)
{
	struct on_cpu *here = this_cpu_ptr(&on_cpu);

	begin(here, event);
	if (!here->event)
		return;
	/* As perf_event_itrace_started(), which modules do not have. */
	event->attach_state |= PERF_ATTACH_ITRACE;
	hrtimer_start(&here->timer, ns_to_ktime(tick_us * NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED_HARD);
}

static void stop(struct perf_event *event, int flags)
{
	struct on_cpu *here = this_cpu_ptr(&on_cpu);

	if (here->event == event) {
		publish(here);
		here->event = NULL;
		hrtimer_try_to_cancel(&here->timer);
	}
	event->hw.state = PERF_HES_STOPPED;
}

static int add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED;
	if (flags & PERF_EF_START)
		start(event, flags);
	return 0;
}

static void del(struct perf_event *event, int flags)
{
	stop(event, PERF_EF_UPDATE);
}

static void nothing(struct perf_event *event)
{
}

/* The newest bytes of an overwritten area, for a sample of another event. */
static long sampled(struct perf_event *event, struct perf_output_handle *to, unsigned long size)
{
	struct on_cpu *here = this_cpu_ptr(&on_cpu);
	unsigned long head, mask;

	if (here->event != event)
		return 0;
	mask = ((unsigned long)here->area->pages << PAGE_SHIFT) - 1;
	head = here->area->written;
	/* Where the area was not full yet, a sample begins with zeros. */
	size = min(size, mask);
	return copy_aux(&here->handle, to, (head - size) & mask, head & mask);
}

static struct pmu traces;

static int init_event(struct perf_event *event)
{
	return event->attr.type == traces.type ? 0 : -ENOENT;
}

PMU_FORMAT_ATTR(pt, "config:0");
PMU_FORMAT_ATTR(tsc, "config:10");
PMU_FORMAT_ATTR(noretcomp, "config:11");
PMU_FORMAT_ATTR(branch, "config:13");
static struct attribute *formats[] = {
	&format_attr_pt.attr, &format_attr_tsc.attr, &format_attr_noretcomp.attr,
	&format_attr_branch.attr, NULL,
};
static const struct attribute_group format = { .name = "format", .attrs = formats };
static const struct attribute_group *groups[] = { &format, NULL };

static struct pmu traces = {
	.module = THIS_MODULE,
	.capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE,
	.task_ctx_nr = perf_sw_context,
	.attr_groups = groups,
	.event_init = init_event,
	.add = add,
	.del = del,
	.start = start,
	.stop = stop,
	.read = nothing,
	.setup_aux = setup,
	.free_aux = give_back,
	.snapshot_aux = sampled,
};

/* Modules are not given the address of what copies into samples. */
static void find_copy_aux(void)
{
	struct kprobe probe = { .symbol_name = "perf_output_copy_aux" };

	if (register_kprobe(&probe) == 0) {
		copy_aux = (void *)probe.addr;
		unregister_kprobe(&probe);
	}
	if (!copy_aux)
		traces.snapshot_aux = NULL;
}

static int __init load(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct hrtimer *timer = &per_cpu_ptr(&on_cpu, cpu)->timer;

		hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		timer->function = tick;
	}
	find_copy_aux();
	return perf_pmu_register(&traces, name, -1);
}

static void __exit unload(void)
{
	perf_pmu_unregister(&traces);
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A PMU that writes a known pattern into AUX areas");
