/** What bounds the payloads that go through Temporal. */

export const PAYLOAD_LIMITS = {
  payloads: {
    /** Up to here compressing costs more than it saves. */
    plainBytesMax: 1_024,
    /** As it is encoded; a larger one is kept in the object store. */
    inlineBytesMax: 131_072,
    /** Of what was there, in the memory of one process. */
    keptBytesMax: 67_108_864,
    /** Then a tenant gets a new key; older ones still decrypt. */
    keyDays: 90,
    /** How long a process may go on with keys that were destroyed. */
    keyCacheMs: 60_000,
    tenantsCachedMax: 5_000,
    /** Of one request of somebody who looks at them. */
    decodedAtOnceMax: 1_000,
    storeTimeoutMs: 4_000,
    /** How long a worker asks for a server that is away: less than Temporal gives it for a task, or for a short call. */
    patienceMs: { workflow: 6_000, activity: 15_000 },
  },
} as const
