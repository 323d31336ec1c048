/** The state of an installation: the servers behind the platform by name, and what a check of each has found. */

/** The servers by their names in `/readyz`, in metrics and in the member `part` of problems, with what texts call them. */
export const SERVERS = {
  postgres: 'PostgreSQL',
  temporal: 'Temporal',
  s3: 'The object store (S3)',
  valkey: 'Valkey',
  mongodb: 'MongoDB',
} as const

export type ServerName = keyof typeof SERVERS

/** Why a check fails, with the sentence that follows the name of the part. Logs have the error itself. */
export const FAILURES = {
  refused: 'refuses connections: it does not run, or listens at another address.',
  unresolved: 'has a host name that cannot be resolved: check its URL and the name server.',
  tls: 'cannot be reached by TLS: one side expects TLS and the other does not, or a certificate is not trusted.',
  expired:
    'shows a certificate that has expired or is not valid yet: renew it, or correct the clock of this machine.',
  untrusted:
    'shows a certificate of an authority that is not trusted: set the file of that authority (docs/deploying.md#tls), or correct the certificate.',
  misnamed: 'shows a certificate of another host: correct the host of its URL, or the certificate.',
  certificate:
    'does not accept the certificate of the platform, or gets none: set a certificate that it trusts, and its key (docs/deploying.md#tls).',
  namespace:
    'does not have the configured namespace: run `tenon migrate`, which makes it, or correct TEMPORAL_NAMESPACE.',
  attributes: 'lacks search attributes in the configured namespace: run `tenon migrate`, which adds them.',
  denied: 'refuses the credentials of the platform: correct its settings.',
  full: 'takes no more data: give it space.',
  busy: 'has no connection left for the platform: raise its limit of connections, or run fewer processes.',
  readonly: 'takes no writes: the platform must reach the primary server.',
  outdated: 'is that of an older build, or of another one: run `tenon migrate`, or read what it says.',
  newer: 'is that of a newer build: start the build that has migrated the database, or a newer one.',
  wrong: 'is not that of this installation: correct TENON_MASTER_KEY.',
  timeout: 'does not answer in time.',
  closed: 'closes connections before it answers.',
  failed: 'fails: its error is in the log of the process.',
} as const

export type FailureKind = keyof typeof FAILURES

/** The finding of the last check of a part. */
export interface PartHealth {
  readonly name: string
  /** A process without it gets no requests. Without any other part, only the routes that need the part fail. */
  readonly required: boolean
  readonly status: 'pass' | 'fail'
  /** Why it fails. */
  readonly cause?: FailureKind
  /** The finding and the next step, in a sentence; of a part that fails. */
  readonly detail?: string
  /** Since when it has passed or failed, RFC 3339. */
  readonly since: string
  /** Milliseconds of the check. */
  readonly ms: number
}

/** A task queue that no worker polls. */
export interface IdleQueue {
  readonly queue: string
  /** The last time that a worker asked for work, RFC 3339; null if Temporal remembers none, which it does for five minutes. */
  readonly since: string | null
  /** The finding and the next step, in sentences. */
  readonly detail: string
}

export interface HealthReport {
  /** `pass`; `warn`: some routes or some work stand still, and requests are welcome; `fail`: requests must go elsewhere. */
  readonly status: 'pass' | 'warn' | 'fail'
  /** The process is about to end. */
  readonly draining: boolean
  readonly parts: readonly PartHealth[]
  readonly idleQueues: readonly IdleQueue[]
}

export interface HealthReader {
  /** Never rejects. The report is a few seconds old at most. */
  read(): Promise<HealthReport>
}
