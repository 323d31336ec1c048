/** `tenon user`: the end users of a workspace, and what the workspace knows of each. */

import type { Command } from 'commander'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import type { Operation } from '../operations/operation-view.ts'
import { finishOperation, NO_WAIT_FLAG, type WatchOptions } from '../operations/watch-operation.ts'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from '../output.ts'
import { saveResponse } from '../save-response.ts'
import { serviceClient, workspaceClient } from '../settings.ts'
import {
  addVerb,
  dateTimeText,
  type Flag,
  refuseWithoutYes,
  WORKSPACE,
  type WorkspaceOption,
  YES_FLAG,
  type YesOption,
} from '../verb.ts'

interface User {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly status: string
  readonly claims: unknown
  readonly last_login_at: string | null
}

interface UserOptions extends WorkspaceOption, JsonOption {}

export const userPath = (id: string): string => `/v1/users/${encodeURIComponent(id)}`

/** Finds a user by id or by e-mail address. @throws Error if the workspace has none with this address */
export async function findUser(user: string, { workspace }: WorkspaceOption) {
  const { client, workspace_id } = await workspaceClient(workspace)
  if (!user.includes('@')) return { client, user: await client.get<User>(userPath(user)) }
  const query = new URLSearchParams({ workspace_id, email: user })
  const [found] = await client.list<User>(`/v1/users?${query}`)
  if (found === undefined) throw new Error(`The workspace ${workspace_id} has no user ${user}.`)
  return { client, user: found }
}

async function list({ workspace, json }: UserOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  return printPages(
    client.pages<User>(`/v1/users?${new URLSearchParams({ workspace_id })}`),
    {
      USER: ({ id }) => id,
      'E-MAIL': ({ email }) => email,
      STATUS: ({ status }) => status,
      'LAST SIGN-IN': ({ last_login_at: at }) => at && dateTimeText(at),
      NAME: ({ name }) => name,
    },
    { json },
  )
}

const show = async (emailOrId: string, options: UserOptions) =>
  printRecord((await findUser(emailOrId, options)).user, options)

interface InviteOptions extends UserOptions {
  readonly name?: string
  readonly claims?: string
  readonly mail?: boolean
}

/** Prints the user with the invitation, which is shown only once, unless it is mailed. */
async function invite(
  email: string,
  { workspace, json, name, claims, mail }: InviteOptions,
): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const body = {
    workspace_id,
    ...{ email, name, mail },
    ...(claims !== undefined && { claims: await jsonArgument(claims, 'The claims') }),
  }
  return printRecord(await client.post<User>('/v1/users', body), { json })
}

async function renew(emailOrId: string, { mail, ...options }: InviteOptions): Promise<number> {
  const { client, user } = await findUser(emailOrId, options)
  return printRecord(await client.post<User>(`${userPath(user.id)}/invite`, { mail }), options)
}

const setDisabled = (disabled: boolean) => async (emailOrId: string, options: UserOptions) => {
  const { client, user } = await findUser(emailOrId, options)
  return printRecord(await client.call<User>('PATCH', userPath(user.id), { disabled }), options)
}

async function setClaims(emailOrId: string, claims: string, options: UserOptions): Promise<number> {
  const value = await jsonArgument(claims, 'The claims')
  const { client, user } = await findUser(emailOrId, options)
  return printRecord(await client.call<User>('PATCH', userPath(user.id), { claims: value }), options)
}

/** A verb that posts to a path of the user, and prints the answer. */
const post = (path: string) => async (emailOrId: string, options: UserOptions) => {
  const { client, user } = await findUser(emailOrId, options)
  return printRecord(await client.post<object>(`${userPath(user.id)}/${path}`, {}), options)
}

interface DeleteOptions extends WorkspaceOption, WatchOptions, YesOption {
  readonly data?: string
  readonly dryRun?: boolean
}

/** What `data=delete` would delete, or `data=anonymize` change. */
interface Preview {
  readonly documents: Readonly<Record<string, number>>
  readonly objects: number
  readonly executions?: number
  readonly runs?: number
  readonly bulk_changes?: number
  readonly approvals?: number
}

async function remove(emailOrId: string, options: DeleteOptions): Promise<number> {
  const { client, user } = await findUser(emailOrId, options)
  const { data = 'keep', dryRun, yes } = options
  const request = <T>(query: string) => client.call<T>('DELETE', `${userPath(user.id)}?${query}`)
  const preview = () => request<Preview>(new URLSearchParams({ data, dry_run: 'true' }).toString())
  if (dryRun) return printRecord(await preview(), options)
  if (!yes) return refuse(user, data, data === 'keep' ? undefined : await preview())
  const deleted = await request<Operation | { readonly deleted: true }>(
    new URLSearchParams({ data }).toString(),
  )
  if ('deleted' in deleted) return printRecord(deleted, options)
  return finishOperation(deleted, options, {
    nextStep: 'Repeat the command once the cause is gone: the user is deleted last.',
  })
}

function refuse({ id, email }: User, fate: string, counts: Preview | undefined): number {
  const user = `user ${id}, ${email}`
  if (counts === undefined)
    return refuseWithoutYes('This deletes for ever:', [user], 'Documents and objects of the user are kept.')
  const { documents, ...others } = counts
  const data = [
    ...Object.entries(documents).map(([name, n]) => `documents of ${name}: ${n}`),
    ...(['objects', 'executions', 'runs', 'bulk_changes', 'approvals'] as const).flatMap((name) =>
      others[name] === undefined ? [] : [`${name.replace('_', ' ')}: ${others[name]}`],
    ),
  ]
  return fate === 'delete'
    ? refuseWithoutYes('This deletes for ever:', [user, ...data])
    : refuseWithoutYes('This deletes the user for ever, and makes anonymous:', [user, ...data])
}

interface ExportOptions extends WorkspaceOption {
  readonly out?: string
}

/** Writes all users of a workspace, or what the workspace knows of one of them. */
async function exportData(emailOrId: string | undefined, options: ExportOptions): Promise<number> {
  if (emailOrId === undefined) {
    const { client, workspace_id } = await workspaceClient(options.workspace)
    const query = new URLSearchParams({ workspace_id })
    return saveResponse(await client.send('GET', `/v1/users/export?${query}`), options.out)
  }
  // Administrators read no documents, so the export takes the service key.
  const id = emailOrId.includes('@') ? (await findUser(emailOrId, options)).user.id : emailOrId
  const client = await serviceClient(options.workspace)
  return saveResponse(await client.send('GET', `${userPath(id)}/export`), options.out, isComplete)
}

/** True for the last line of an export that has reached its end. */
const isComplete = (line: string): boolean => line.startsWith('{"type":"end",')

const FLAGS: readonly Flag[] = [WORKSPACE, JSON_FLAG]
const MAIL: Flag = ['--mail', 'Mail the link to the user, and do not print it.']

export function userVerbs(program: Command): void {
  const user = program
    .command('user')
    .description('Manage end users of a workspace. <user> is an id or an e-mail address.')
  addVerb(user, 'list', 'List users.', list, [WORKSPACE, JSON_LINES_FLAG])
  addVerb(user, 'show <user>', 'Print a user.', show, FLAGS)
  addVerb(
    user,
    'invite <email>',
    'Invite a user and print the invitation, which is shown only once.',
    invite,
    [
      ['--name <name>', 'Name of the user.'],
      ['--claims <json>', `Claims in tokens of the user: ${JSON_NOTATION}.`],
      MAIL,
      ...FLAGS,
    ],
  )
  addVerb(
    user,
    'renew <user>',
    'Renew an invitation that was not accepted yet. The earlier link becomes invalid.',
    renew,
    [MAIL, ...FLAGS],
  )
  addVerb(user, 'claims <user> <json>', 'Replace the claims of a user.', setClaims, FLAGS)
  addVerb(
    user,
    'disable <user>',
    'Disable a user: end all sessions, and reject sign-ins.',
    setDisabled(true),
    FLAGS,
  )
  addVerb(user, 'enable <user>', 'Enable a disabled user, who can sign in again.', setDisabled(false), FLAGS)
  addVerb(user, 'sign-out <user>', 'Sign a user out everywhere.', post('sign-out'), FLAGS)
  addVerb(
    user,
    'reset-factors <user>',
    'Remove the second factor and all passkeys of a user, and sign the user out everywhere.',
    post('reset-factors'),
    FLAGS,
  )
  addVerb(
    user,
    'delete <user>',
    'Delete a user; with --data delete also what the user has stored, with --data anonymize whose it was.',
    remove,
    [
      [
        '--data <fate>',
        'Fate of documents and objects of the user: keep, delete or anonymize. Default: keep.',
      ],
      ['--dry-run', 'Count what would be deleted or made anonymous, and change nothing.'],
      YES_FLAG,
      NO_WAIT_FLAG,
      ...FLAGS,
    ],
  )
  addVerb(
    user,
    'export [user]',
    'Print all users as JSON Lines; with <user>, all that the workspace knows of this one. The latter needs TENON_SERVICE_KEY.',
    exportData,
    [['--out <file>', 'Write to a file instead of stdout. It is complete if it exists.'], WORKSPACE],
  )
}
