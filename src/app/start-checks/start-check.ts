/** A check of an installation, and running a list of them. API, worker and `tenon doctor` run the same list. */

import { setTimeout as delay } from 'node:timers/promises'
import { Problem } from '../../core/problem.ts'
import { FAILURES, type FailureKind, SERVERS, type ServerName } from '../../infra/health-report.ts'
import { failureKindOf } from '../../infra/unavailable.ts'

type Process = 'api' | 'worker'

/** The result of a check: `wrong`: the platform would lose, leak or refuse something. `warning`: it works, and an operator should look. `detail` says the finding, and the next step if it is not good. */
export interface Verdict {
  readonly is: 'good' | 'warning' | 'wrong'
  readonly detail: string
  /** In one word, for the readiness of a part. */
  readonly kind?: FailureKind
}

export interface StartCheck {
  readonly name: string
  /** The server that it asks, unless its errors name it. */
  readonly server?: ServerName
  /** Processes that do not start if the verdict is `wrong`; all others report it. */
  readonly stops: readonly Process[]
  /** The API neither needs nor checks it. */
  readonly isOfWorker?: boolean
  /** The worker waits until the server of this check answers. */
  readonly isAwaited?: boolean
  /** @throws any error if its server does not answer */
  readonly run: () => Promise<Verdict>
}

/** `unknown`: the server of the check does not answer. */
export interface Checked {
  readonly check: StartCheck
  readonly is: Verdict['is'] | 'unknown'
  readonly detail: string
}

const TIMEOUT_MS = 5_000

/** Runs all checks at the same time. Never rejects. */
export const runChecks = (checks: readonly StartCheck[]): Promise<Checked[]> =>
  Promise.all(checks.map(runCheck))

async function runCheck(check: StartCheck): Promise<Checked> {
  const late = delay(TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`no answer within ${TIMEOUT_MS / 1_000} s`)
  })
  try {
    return { check, ...(await Promise.race([check.run(), late])) }
  } catch (error) {
    return { check, is: 'unknown', detail: detailOf(check, error) }
  }
}

/** Faults of certificates, which each driver describes in its own words. */
const OF_CERTIFICATES: readonly FailureKind[] = ['expired', 'untrusted', 'misnamed', 'certificate', 'tls']

function detailOf({ server }: StartCheck, error: unknown): string {
  const kind = failureKindOf(error)
  const part = error instanceof Problem ? (error.members['part'] as ServerName | undefined) : server
  if (part === undefined || !OF_CERTIFICATES.includes(kind)) return causeOf(error)
  return `${SERVERS[part]} ${FAILURES[kind]}`
}

/** The sentence of a Problem and, of the errors that caused it, the last: what the driver has said. */
function causeOf(error: unknown): string {
  const said = error instanceof Problem ? error.message : undefined
  let cause = error
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause
  const { code } = Object(cause) as { code?: unknown }
  const text = cause instanceof Error ? cause.message || String(code ?? cause.name) : String(cause)
  return said === undefined || said === text ? text : `${said} (${text})`
}
