/** `tenon sign-in-policy`: whether the accounts of a tenant, or those of operators, need a second factor. */

import type { Command } from 'commander'
import { withQuery } from '../client.ts'
import { JSON_FLAG, type JsonOption, printRecord } from '../output.ts'
import { adminClient } from '../settings.ts'
import { addVerb, type Flag } from '../verb.ts'

const PATH = '/v1/sign-in-policy'

interface PolicyOptions extends JsonOption {
  readonly tenant?: string
}

async function show({ tenant, json }: PolicyOptions): Promise<number> {
  const client = await adminClient()
  return printRecord(await client.get<object>(withQuery(PATH, { tenant_id: tenant })), { json })
}

interface SetOptions extends PolicyOptions {
  /** False with `--no-require-mfa`. */
  readonly requireMfa?: boolean
}

async function set({ tenant, requireMfa: require_mfa, json }: SetOptions): Promise<number> {
  if (require_mfa === undefined)
    throw new Error('Nothing is to be changed. Add --require-mfa or --no-require-mfa.')
  const client = await adminClient()
  return printRecord(await client.call<object>('PUT', PATH, { tenant_id: tenant, require_mfa }), { json })
}

const TENANT: Flag = [
  '--tenant <id>',
  'Tenant whose accounts it is about. Default: your own; of an operator, the accounts of operators.',
]

export function signInPolicyVerbs(program: Command): void {
  const policy = program
    .command('sign-in-policy')
    .description('Manage whether administrators need a second factor.')
  addVerb(policy, 'show', 'Print whether the accounts need a second factor.', show, [TENANT, JSON_FLAG])
  addVerb(
    policy,
    'set',
    'Require a second factor of the accounts, or no longer. Takes effect within 5 s, also for tokens issued before.',
    set,
    [
      ['--require-mfa', 'Let the accounts do nothing without a second factor.'],
      ['--no-require-mfa', 'Let the accounts sign in with a password alone.'],
      TENANT,
      JSON_FLAG,
    ],
  )
}
