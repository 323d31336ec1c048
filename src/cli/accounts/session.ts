/** `tenon session|consent`: where a person is signed in, and which clients may act for the person. */

import type { Command } from 'commander'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from '../output.ts'
import { adminClient } from '../settings.ts'
import { clip } from '../terminal.ts'
import { addVerb, dateTimeText, type Flag, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { accountPath, findAccount } from './account.ts'
import { findUser, userPath } from './user.ts'

interface Session {
  readonly id: string
  readonly page: string | null
  readonly device: string
  readonly address: string
  readonly created_at: string
  readonly last_used_at: string
  /** Of own sessions: whether it is the one of the command. */
  readonly current?: boolean
}

interface PersonOptions extends WorkspaceOption, JsonOption {
  readonly account?: string
  readonly user?: string
}

/** The sessions of the person that the options name, or else those of the person whose token the command has. */
async function openSessions({ account, user, workspace }: PersonOptions) {
  if (account !== undefined && user !== undefined) throw new Error('Name an account or a user, not both.')
  if (account !== undefined) {
    const { client, account: found } = await findAccount(account)
    return { client, path: `${accountPath(found.id)}/sessions` }
  }
  if (user !== undefined) {
    const { client, user: found } = await findUser(user, { ...(workspace !== undefined && { workspace }) })
    return { client, path: `${userPath(found.id)}/sessions` }
  }
  return { client: await adminClient(), path: '/v1/me/sessions' }
}

/** Browsers name themselves at length. */
const DEVICE_CHARS = 60

async function listSessions({ json, ...options }: PersonOptions): Promise<number> {
  const { client, path } = await openSessions(options)
  const { data } = await client.get<{ data: readonly Session[] }>(path)
  return printPages(
    [data],
    {
      SESSION: ({ id, current }) => (current ? `${id} (this one)` : id),
      'LAST USED': ({ last_used_at: at }) => dateTimeText(at),
      'SIGNED IN': ({ created_at: at }) => dateTimeText(at),
      AT: ({ page }) => page ?? 'apps',
      FROM: ({ address }) => address,
      DEVICE: ({ device }) => clip(device, DEVICE_CHARS),
    },
    { json },
  )
}

async function endSession(id: string, options: PersonOptions): Promise<number> {
  const { client, path } = await openSessions(options)
  return printRecord(await client.call<object>('DELETE', `${path}/${encodeURIComponent(id)}`), options)
}

interface Consent {
  readonly id: string
  readonly client_name: string
  readonly registered: boolean
  readonly resource: string
  readonly scopes: readonly string[]
  readonly created_at: string
  readonly last_used_at: string | null
}

const CONSENTS = '/v1/me/consents'

async function listConsents({ json }: JsonOption): Promise<number> {
  const client = await adminClient()
  const { data } = await client.get<{ data: readonly Consent[] }>(CONSENTS)
  return printPages(
    [data],
    {
      CONSENT: ({ id }) => id,
      CLIENT: ({ client_name, registered }) =>
        registered ? `${client_name} (name not verified)` : client_name,
      'LAST USED': ({ last_used_at: at }) => at && dateTimeText(at),
      GIVEN: ({ created_at: at }) => dateTimeText(at),
      FOR: ({ resource }) => resource,
      SCOPES: ({ scopes }) => scopes,
    },
    { json },
  )
}

async function endConsent(id: string, options: JsonOption): Promise<number> {
  const client = await adminClient()
  return printRecord(await client.call<object>('DELETE', `${CONSENTS}/${encodeURIComponent(id)}`), options)
}

const OF_PERSON: readonly Flag[] = [
  ['--account <account>', 'Id or e-mail address of an account. Default: you, who have signed in.'],
  ['--user <user>', 'Id or e-mail address of an end user.'],
  WORKSPACE,
]

export function sessionVerbs(program: Command): void {
  const session = program
    .command('session')
    .description('List and end sessions: yours, with the token of `tenon login`, or those of others.')
  addVerb(session, 'list', 'List sessions, the latest first.', listSessions, [...OF_PERSON, JSON_LINES_FLAG])
  addVerb(
    session,
    'end <id>',
    'End a session: its refresh tokens at once, its access tokens and pages within 5 s.',
    endSession,
    [...OF_PERSON, JSON_FLAG],
  )
  const consent = program
    .command('consent')
    .description('List and end the access that you have given to clients. Needs the token of `tenon login`.')
  addVerb(consent, 'list', 'List the clients that may act for you, the newest first.', listConsents, [
    JSON_LINES_FLAG,
  ])
  addVerb(
    consent,
    'end <id>',
    'End the access of a client: its refresh tokens at once, its access tokens within 5 s.',
    endConsent,
    [JSON_FLAG],
  )
}
