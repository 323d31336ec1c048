/** What bounds the triggers of flows: webhooks and events. */

export const TRIGGER_LIMITS = {
  /** How far the time of a webhook may be from our clock, on both sides. */
  webhookToleranceMs: 300_000,
  /** As much as the input of a run may have. */
  webhookBodyBytesMax: 524_288,
  /** Of a header that a run is shown. */
  webhookHeaderCharsMax: 1_000,
  /** How long a secret that was rotated is still good. */
  webhookGraceSeconds: 86_400,
  /** For so long a delivery that comes again starts nothing; and how many older ones go with each that is new. */
  webhookDeliveriesKeptDays: 30,
  webhookDeliveriesForgottenAtOnce: 20,
  /** Who has signed well is remembered, so that neighbours of its address do not get it refused. */
  webhookSendersKnownMax: 10_000,
  /** How often a flow may begin by an event of a flow that began by an event of a flow … */
  eventHopsMax: 16,
  /** How often it is looked which triggers there are, and, where nothing is heard, whether there is anything. */
  watchRefreshMs: 1_000,
  watchIdleMs: 5_000,
  /** How soon a trigger tries again that could not begin a run. */
  watchRetryMs: { min: 250, max: 30_000 },
  /** Of the time of the thread, at most a fourth for the filters of one trigger. */
  watchRestFactor: 3,
} as const
