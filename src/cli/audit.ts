/** `tenon audit list|verify`: reads the audit log, and verifies its chain from end to end. */

import type { Command } from 'commander'
import { withQuery } from './client.ts'
import { JSON_LINES_FLAG, type JsonOption, type ListOptions, printPages, printRecord } from './output.ts'
import { adminClient } from './settings.ts'
import { addVerb, dateTimeText, type Flag } from './verb.ts'

interface Entry {
  readonly seq: number
  readonly at: string
  readonly actor: { readonly kind: string; readonly subject: string | null }
  readonly operation: string
  readonly target: string
  readonly outcome: string
  readonly code: string | null
}

interface Filters extends ListOptions {
  readonly tenant?: string
  readonly since?: string
  readonly until?: string
  readonly actor?: string
  readonly operation?: string
  readonly outcome?: string
  readonly request?: string
  readonly trace?: string
}

async function list({ tenant, request, trace, limit, json, ...filters }: Filters): Promise<number> {
  const client = await adminClient()
  const named = { ...filters, tenant_id: tenant, request_id: request, trace_id: trace }
  return printPages(
    client.pages<Entry>(withQuery('/v1/audit', named)),
    {
      SEQ: ({ seq }) => seq,
      TIME: ({ at }) => dateTimeText(at),
      OUTCOME: ({ outcome }) => outcome,
      OPERATION: ({ operation }) => operation,
      TARGET: ({ target }) => target,
      ACTOR: ({ actor: { kind, subject } }) => `${kind} ${subject ?? ''}`.trim(),
      CODE: ({ code }) => code,
    },
    { json, ...(limit !== undefined && { limit }) },
  )
}

interface Verified {
  readonly ok: boolean
  readonly checked: number
  readonly next: number | null
  readonly first_bad: { readonly seq: number; readonly reason: string } | null
}

interface VerifyOptions extends JsonOption {
  readonly tenant?: string
  readonly anchor?: string
}

/** Verifies all entries, some thousands by each request. @returns exit code 0 if the chain is intact */
async function verify({ tenant, anchor, json }: VerifyOptions): Promise<number> {
  const client = await adminClient()
  const verifyFrom = (after?: number) =>
    client.get<Verified>(
      withQuery('/v1/audit/verify', { tenant_id: tenant, anchor, after: after?.toString() }),
    )
  let found = await verifyFrom()
  while (found.next !== null) {
    const part = await verifyFrom(found.next)
    found = { ...part, checked: found.checked + part.checked }
  }
  printRecord(found, { json })
  if (found.ok) return 0
  const { seq, reason } = found.first_bad ?? {}
  process.stderr.write(`The audit log is not intact: entry ${seq} is invalid (${reason}).\n`)
  return 1
}

const TENANT: Flag = ['--tenant <id>', 'Tenant of the entries. Default: your own; of an operator, no tenant.']

export function auditVerbs(program: Command): void {
  const audit = program.command('audit').description('Read and verify the audit log.')
  addVerb(audit, 'list', 'List entries, newest first.', list, [
    TENANT,
    ['--since <time>', 'List only entries from this time on, such as 2026-11-21T12:00:00Z.'],
    ['--until <time>', 'List only entries before this time.'],
    ['--actor <id>', 'List only entries of this key, person, client or run.'],
    ['--operation <name>', 'List only entries of this operation, such as tenant.create.'],
    ['--outcome <outcome>', 'List only entries with this outcome: done, denied or failed.'],
    ['--request <id>', 'List only entries of this request.'],
    ['--trace <id>', 'List only entries of this trace.'],
    ['--limit <n>', 'Print at most so many. Default: all.'],
    JSON_LINES_FLAG,
  ])
  addVerb(
    audit,
    'verify',
    'Verify the hash chain of the audit log from its first entry to its last. The exit code is 1 if it is not intact.',
    verify,
    [
      TENANT,
      ['--anchor <head>', 'A head that was kept elsewhere, as SEQ:HASH, which the chain must still contain.'],
      ['--json', 'Print the last answer of the API, with all entries that were checked.'],
    ],
  )
}
