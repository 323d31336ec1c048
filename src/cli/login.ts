/** `tenon login`: a person signs in with a browser, and her token is printed (RFC 8252: code with PKCE, loopback). */

import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Command } from 'commander'
import { need, readSettings } from './settings.ts'
import { verb } from './verb.ts'

const PATH = '/callback'
const PATIENCE_MS = 600_000

/** Prints where to sign in on stderr, then the access token, alone on stdout. */
async function login(options: { client?: string }): Promise<number> {
  const settings = await readSettings()
  const url = need(settings, 'TENON_URL')
  const clientId = options.client ?? need(settings, 'TENON_LOGIN_CLIENT_ID')
  const server = createServer().listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`
    const [verifier, state] = [random(), random()]
    const parameters = {
      client_id: clientId,
      response_type: 'code',
      redirect_uri: redirectUri,
      state,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }
    const answer = answered(server)
    process.stderr.write(`Sign in at\n  ${url}/auth/authorize?${new URLSearchParams(parameters)}\n`)
    const code = codeOf(await answer, state, `${url}/auth`)
    process.stdout.write(`${await tokenFor(url, { clientId, code, redirectUri, verifier })}\n`)
    return 0
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

const random = () => randomBytes(32).toString('base64url')

/** What the browser brings back. @throws Error where it does not come back in time */
function answered(server: Server): Promise<URLSearchParams> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('Nobody signed in within ten minutes.')), PATIENCE_MS)
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
      const ours = pathname === PATH
      response.writeHead(ours ? 200 : 404, { 'content-type': 'text/plain', connection: 'close' })
      response.end(ours ? 'You can close this page and go back to the terminal.\n' : '')
      if (!ours) return
      clearTimeout(timer)
      resolve(searchParams)
    })
  })
}

/** @throws Error where it was denied, or is no answer to our question (RFC 9207 for `iss`) */
function codeOf(answer: URLSearchParams, state: string, issuer: string): string {
  if (answer.get('state') !== state || answer.get('iss') !== issuer)
    throw new Error('What came back belongs to another sign-in.')
  const code = answer.get('code')
  if (code === null)
    throw new Error(`No sign-in: ${answer.get('error_description') ?? answer.get('error') ?? 'no code'}`)
  return code
}

interface Exchanged {
  readonly clientId: string
  readonly code: string
  readonly redirectUri: string
  readonly verifier: string
}

async function tokenFor(url: string, { clientId, code, redirectUri, verifier }: Exchanged): Promise<string> {
  const response = await fetch(`${url}/auth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: clientId,
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }),
  })
  const { access_token: token, error_description: text } = (await response.json()) as Record<string, string>
  if (token === undefined) throw new Error(`No token: ${text ?? response.status}`)
  return token
}

export function loginVerbs(program: Command): void {
  program
    .command('login')
    .description('sign in with a browser; prints an access token, alone on stdout')
    .option(
      '--client <id>',
      'public OAuth client with http://127.0.0.1/callback; default: TENON_LOGIN_CLIENT_ID',
    )
    .action(verb(login))
}
