/** What bounds a run of a flow, and what it carries. */

export const RUN_LIMITS = {
  /** Of a call, and of a flow: whoever reads it holds all of it. Temporal has no part in this (payloads.ts). */
  stepOutputBytesMax: 4_194_304,
  /** Of what a call answered, as it is kept with its step, for reruns and simulations. */
  stepAnswerCharsMax: 65_536,
  /** What a run takes over from the one that it repeats. */
  reuse: { stepsMax: 1_000, bytesMax: 393_216 },
  /** How deep flows that flows run may go. */
  subflowDepthMax: 8,
  scheduleNoteCharsMax: 500,
  /** What a flow hands to one call, and to all calls under way, which its worker holds. */
  stepInputBytesMax: 4_194_304,
  callsUnderWayBytesMax: 33_554_432,
  /** Of that, what does not go to the object store: it may leave in one message, which Temporal takes up to 4 MB. */
  callsSentBytesMax: 3_500_000,
  /** Of one workflow task, which has ten seconds: the next is a task of its own, and ends it. */
  localCallsMax: 100,
  /** Requests that change nothing, beside their runs. */
  briefCalls: {
    /** How long one may last, and all of a task that follow each other. */
    lastMs: 300,
    taskMs: 1_000,
    /** Of one tenant in a worker, and how long the next waits for that. */
    atOnce: 16,
    waitMs: 250,
    /** Who was slow is not asked so for a while: twice as long each time, up to this, until he is brief again. */
    slowMinMs: 1_000,
    slowMaxMs: 64_000,
    slowKept: 10_000,
    /** A run that found no place has so many calls with a task each before it asks again; twice as many the next time. */
    restMin: 4,
    restMax: 256,
  },
  /** For how long a run that waits keeps a place that it would give back: others wait for it meanwhile. */
  placeKeptMs: 250,
  /** How long a task waits for the end of a record, longer than Temporal waits for the task; and how long that is tried in all. */
  records: { holdMs: 15_000, patienceMs: 600_000 },
  /** Of a worker: more than wait for servers elsewhere, so that they hold up no record. */
  localCallSlots: 250,
  /** Temporal ends a run without a word at 51,200 events or 50 MiB of history. */
  runEventsMax: 48_000,
  runHistoryBytesMax: 44_040_192,
  /** An input, an event, a decision; the body that brings one may have a little more around it. */
  runInputBytesMax: 4_194_304,
  runBodyBytesMax: 4_456_448,
  runInputDepthMax: 64,
  /** Of the schema of a flow's input, before it is started: some 10 ms. */
  inputCheckSteps: 50_000,
} as const
