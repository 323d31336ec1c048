/**
 * Settings and API clients of the CLI: the environment, then `.env.local` of the project, whose credentials are only sent
 * to its own TENON_URL.
 */

import { readFile, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { type Client, createClient } from '../../client/src/index.ts'
import { currentToken, forgetSignIn, renewToken } from './accounts/sign-in.ts'
import { ApiClient, ApiError, type Credential, fetchToken } from './client.ts'
import { readEnvironment } from './stack/environment.ts'

/** The settings of the file; see {@link readSettings}. */
const OF_FILE = Symbol('of .env.local')

export type Settings = Readonly<Record<string, string | undefined>> & { readonly [OF_FILE]?: OfFile }

interface OfFile {
  /** Settings in use. */
  readonly used: Settings
  /** Settings not in use, since they are for another TENON_URL. */
  readonly withheld: Settings
}

const FILE = '.env.local'

/**
 * Reads the settings; the environment wins over the file. If TENON_URL has another origin than that of the file, all TENON_
 * settings of the file are withheld: its credentials and ids belong to the platform of the file.
 */
export async function readSettings(): Promise<Settings> {
  const file = await readEnvFile()
  const given = readEnvironment(callerPath)
  const url = given['TENON_URL'] ?? file['TENON_URL']
  const isSame = url !== undefined && originOf(url) === originOf(file['TENON_URL'])
  const [used, withheld] = isSame ? [file, {}] : splitByPlatform(file)
  return { ...used, ...given, [OF_FILE]: { used, withheld } }
}

/** Splits the settings of the file: for any platform, and only for its own. */
function splitByPlatform(file: Settings): [Settings, Settings] {
  const isOfPlatform = ([name]: [string, unknown]) => name.startsWith('TENON_') && name !== 'TENON_URL'
  const entries = Object.entries(file)
  const others = entries.filter((entry) => !isOfPlatform(entry))
  return [Object.fromEntries(others), Object.fromEntries(entries.filter(isOfPlatform))]
}

/** Returns the origin of a URL; another text equals only itself. */
const originOf = (url: string | undefined): string | undefined =>
  url !== undefined && URL.canParse(url) && new URL(url).origin !== 'null' ? new URL(url).origin : url

export async function readEnvFile(): Promise<Settings> {
  return parseEnv(await readFile(FILE, 'utf8').catch(() => ''))
}

/**
 * Replaces the file, with read access for its owner only, since it contains keys.
 * @param folder of the project, or another one
 * @returns the path of the file, relative to the working directory
 */
export async function writeEnvFile(values: Settings, folder = ''): Promise<string> {
  const path = join(folder, FILE)
  const lines = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}\n`],
  )
  const text = `# Written by \`npm start\`. Keys of the demo workspace: keep it out of version control.\n${lines.join('')}`
  await writeFile(`${path}.new`, text, { mode: 0o600 })
  await rename(`${path}.new`, path)
  return path
}

/** Returns a required setting. @throws Error that says how to set it */
export function need(settings: Settings, name: string): string {
  const value = settings[name]
  if (value) return value
  if (settings[OF_FILE]?.withheld[name]) throw new Error(withheldMessage(settings, name))
  throw new Error(`${name} is not set. Set it, or run \`npm start\` first.`)
}

function withheldMessage(settings: Settings, name: string): string {
  const { TENON_URL: ofFile } = settings[OF_FILE]?.used ?? {}
  const url = settings['TENON_URL']
  return ofFile === undefined
    ? `${name} of ${FILE} is not sent to ${url}: the file has no TENON_URL. Set ${name} in the environment as well, or TENON_URL in the file.`
    : `${name} of ${FILE} is sent only to ${ofFile}, and TENON_URL is ${url}. Set ${name} in the environment as well, or unset TENON_URL.`
}

/** Returns TENON_TOKEN or what has replaced it, or fetches an access token with the client of the operator. */
async function operatorToken(settings: Settings): Promise<string> {
  if (settings['TENON_TOKEN']) return currentToken(settings['TENON_TOKEN'])
  // Without another client, the error names the withheld token.
  if (settings[OF_FILE]?.withheld['TENON_TOKEN'] && !settings['TENON_CLIENT_ID'])
    need(settings, 'TENON_TOKEN')
  const [id, secret] = [need(settings, 'TENON_CLIENT_ID'), need(settings, 'TENON_CLIENT_SECRET')]
  return fetchToken(need(settings, 'TENON_URL'), id, secret)
}

/** Resolves a path relative to the working directory of the caller. */
export const callerPath = (file: string): string => resolve(process.env['TENON_CALLER_CWD'] ?? '.', file)

/** Creates a client with the rights of the operator. @param workspace the workspace of the verb, if it has one */
export async function operatorClient(settings: Settings, workspace?: string): Promise<ApiClient> {
  return (await operatorAccess(settings, workspace)).client
}

/** The client of a verb of administration that is about no workspace. */
export const adminClient = async (): Promise<ApiClient> => operatorClient(await readSettings())

const bearer = (token: string): Credential => ({ authorization: `Bearer ${token}` })
const tokenIn = ({ authorization = '' }: Credential): string => authorization.slice('Bearer '.length)

/** Like {@link operatorClient}; also returns the access token. */
export async function operatorAccess(
  settings: Settings,
  workspace?: string,
): Promise<{ client: ApiClient; token: string }> {
  const token = await operatorToken(settings)
  const place = { url: need(settings, 'TENON_URL'), loginClient: settings['TENON_LOGIN_CLIENT_ID'] }
  const renew = async (refused: ApiError, used: Credential) => {
    const renewed = await renewToken(place, tokenIn(used), refused)
    return renewed === undefined ? undefined : bearer(renewed)
  }
  const client = new ApiClient(place.url, bearer(token), renew)
  const names = settings['TENON_TOKEN'] ? ['TENON_TOKEN'] : ['TENON_CLIENT_ID', 'TENON_CLIENT_SECRET']
  if (!settings['TENON_QUIET']) announce(client, settings, names, await readMe(client), workspace)
  return { client, token }
}

/** A command that writes many resources waits as long as the rate limit asks it to. */
const MANY_CALLS = { retries: 12, timeoutMs: 600_000 }

/** `@tenon/client` as the operator, whose token is renewed like that of {@link operatorAccess}. */
export async function operatorOperations(): Promise<Client> {
  const settings = await readSettings()
  const { token } = await operatorAccess(settings)
  const place = { url: need(settings, 'TENON_URL'), loginClient: settings['TENON_LOGIN_CLIENT_ID'] }
  let present = token
  return createClient({
    ...MANY_CALLS,
    url: place.url,
    token: async ({ refused }) => {
      if (refused === undefined || refused !== present) return present
      const problem = { code: 'token_expired', title: 'The token is not valid any more.' }
      present = settings['TENON_TOKEN']
        ? ((await renewToken(place, refused, new ApiError(401, problem))) ?? refused)
        : await operatorToken(settings)
      return present
    },
  })
}

/**
 * Creates a client with the service key of a workspace.
 * @param workspace the workspace that the key has to be of; default: TENON_WORKSPACE_ID
 * @throws Error if the key is of another workspace
 */
export async function serviceClient(workspace?: string): Promise<ApiClient> {
  const settings = await readSettings()
  const apikey = need(settings, 'TENON_SERVICE_KEY')
  const client = new ApiClient(need(settings, 'TENON_URL'), { apikey })
  const wanted = workspace ?? workspaceOfKey(settings)
  const isQuiet = Boolean(settings['TENON_QUIET'])
  const me = wanted === undefined && isQuiet ? undefined : await readMe(client)
  if (wanted !== undefined) requireWorkspace(me, wanted)
  if (!isQuiet) announce(client, settings, ['TENON_SERVICE_KEY'], me)
  return client
}

/** TENON_WORKSPACE_ID, unless it is that of the file, and the key is not: then the key alone determines the workspace. */
function workspaceOfKey(settings: Settings): string | undefined {
  const { used } = settings[OF_FILE] ?? {}
  const isOfFile = (name: string) => used?.[name] === settings[name]
  return isOfFile('TENON_WORKSPACE_ID') && !isOfFile('TENON_SERVICE_KEY')
    ? undefined
    : settings['TENON_WORKSPACE_ID']
}

/** @throws Error if the key is of another workspace */
function requireWorkspace(me: Me | undefined, wanted: string): void {
  if (me === undefined || me.workspace_id === wanted) return
  throw new Error(
    `TENON_SERVICE_KEY belongs to the workspace ${me.workspace_id}, not to ${wanted}. Create a key for ${wanted}: tenon key create --kind service --name cli --workspace ${wanted}`,
  )
}

/** The lines that {@link announce} has printed for this command. */
const announced = new Set<string>()

/** For the next command of this process. */
export function forgetCommand(): void {
  announced.clear()
  forgetSignIn()
}

interface Me {
  readonly roles: readonly string[]
  readonly workspace_id: string | null
}

/** Reads what the credential is. @returns undefined if that fails: the request of the verb fails as well, and reports the reason */
const readMe = (client: ApiClient): Promise<Me | undefined> => client.get<Me>('/v1/me').catch(() => undefined)

/**
 * Prints on stderr which workspace, role and platform a verb uses.
 * @param credentials names of the settings with its credentials
 */
function announce(
  client: ApiClient,
  settings: Settings,
  credentials: readonly string[],
  me: Me | undefined,
  workspace?: string,
): void {
  if (me?.roles === undefined) return
  const workspaceId = workspace ?? me.workspace_id
  const { used } = settings[OF_FILE] ?? {}
  const isOfFile = credentials.some((name) => used?.[name] !== undefined && used[name] === settings[name])
  const parts = [
    workspaceId === null ? '' : `workspace ${workspaceId}`,
    `role ${me.roles.join(' and ') || 'none'}`,
    client.url,
    isOfFile ? `credentials of ${FILE}` : '',
  ]
  const line = `tenon: ${parts.filter(Boolean).join(', ')}\n`
  // A command that watches takes a new client each time it connects.
  if (!announced.has(line)) process.stderr.write(line)
  announced.add(line)
}

/**
 * Creates an operator client for a workspace, by default that of TENON_WORKSPACE_ID.
 * @throws Error if neither an option nor a setting names the workspace
 */
export async function workspaceClient(workspace: string | undefined) {
  const settings = await readSettings()
  const workspace_id = workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return { settings, workspace_id, client: await operatorClient(settings, workspace_id) }
}

/** Like {@link workspaceClient}; `base` is the path of the flows of the workspace. */
export async function flowsClient(workspace: string | undefined) {
  const { client, workspace_id } = await workspaceClient(workspace)
  return { client, base: `/v1/flows/workspaces/${workspace_id}` }
}

export const readCallerFile = (file: string): Promise<string> => readFile(callerPath(file), 'utf8')
