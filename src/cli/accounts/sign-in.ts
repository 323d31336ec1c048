/** Signs a person in with a browser (RFC 8252: code with PKCE, loopback), also while a command runs, if its token is too old. */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeJwt } from 'jose'
import * as oidc from 'openid-client'
import { sentences } from '../../core/text/sentences.ts'
import { ApiError, issuerAt, requestToken } from '../client.ts'

const PATH = '/callback'
const SIGN_IN_TIMEOUT_MS = 600_000

/**
 * Prints the address to sign in on stderr, and waits until the person has signed in there.
 * @param clientId a public client with the redirect URI `http://127.0.0.1/callback`
 * @returns the access token @throws Error if the person denies it, or after ten minutes
 */
export async function signIn(url: string, clientId: string): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`
    const issuer = issuerAt(url, clientId, oidc.None())
    const [pkceCodeVerifier, expectedState] = [oidc.randomPKCECodeVerifier(), oidc.randomState()]
    const address = oidc.buildAuthorizationUrl(issuer, {
      redirect_uri: redirectUri,
      state: expectedState,
      code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
      // Also in a browser that is signed in: the token then counts as a recent proof.
      prompt: 'login',
    })
    const redirected = waitForCallback(server, redirectUri)
    process.stderr.write(`Sign in at\n  ${address}\n`)
    const callback = await redirected
    const checks = { pkceCodeVerifier, expectedState }
    return await requestToken(url, () => oidc.authorizationCodeGrant(issuer, callback, checks))
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** Waits for the redirect of the browser, and returns its URL. @throws Error after ten minutes */
function waitForCallback(server: Server, redirectUri: string): Promise<URL> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error('No sign-in was completed within 10 minutes. Run the command again.')),
      SIGN_IN_TIMEOUT_MS,
    )
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const url = new URL(request.url ?? '/', redirectUri)
      const isCallback = url.pathname === PATH
      response.writeHead(isCallback ? 200 : 404, { 'content-type': 'text/plain', connection: 'close' })
      response.end(isCallback ? 'Sign-in is complete. Close this page and go back to the terminal.\n' : '')
      if (!isCallback) return
      clearTimeout(timer)
      resolve(url)
    })
  })
}

/** The platform at which a person signs in again, and the client of `tenon login`; undefined if the settings name none. */
export interface SignInPlace {
  readonly url: string
  readonly loginClient: string | undefined
}

/** The last sign-in of this command: all of its requests use the token, and none asks for the same again. */
let last: { readonly instead: string; readonly token: Promise<string> } | undefined

/** For the next command of this process. */
export const forgetSignIn = (): void => {
  last = undefined
}

/** The token in use: that of the last sign-in of this command, or else `token`. @throws the error of that sign-in */
export const currentToken = async (token: string): Promise<string> => (await last?.token) ?? token

/**
 * Another token in place of one that is too old for what a command does.
 * @returns undefined if the request was refused for another reason, or the token is not that of a person who signs in at the platform
 * @throws ApiError that says what to run, if standard input is no terminal; Error if the person denies it, or another one signs in
 */
export async function renewToken(
  place: SignInPlace,
  token: string,
  refused: ApiError,
): Promise<string | undefined> {
  const { sub = '', client_id } = readClaims(token)
  if (!isTooOld(refused) || !PERSON.test(sub)) return undefined
  if (last?.instead !== token) {
    const client = place.loginClient ?? (client_id as string | undefined)
    if (!process.stdin.isTTY || client === undefined) throw withCommand(refused, place, client)
    const { title, detail = title } = refused.problem
    process.stderr.write(`${sentences(String(detail), 'Sign in again, and the command goes on.')}\n`)
    last = { instead: token, token: signInAs(sub, place.url, client) }
  }
  return last.token
}

/** Ids of accounts and users. Machines prove themselves with their secret, and people elsewhere sign in there. */
const PERSON = /^(acct|usr)_/

/** A token of a person and a recent proof both end after ten minutes. With `max_age`, it is the time that is missing. */
const isTooOld = ({ problem: { code, max_age } }: ApiError): boolean =>
  code === 'token_expired' || (code === 'insufficient_user_authentication' && max_age !== undefined)

/** The claims, which the platform alone verifies. */
function readClaims(token: string) {
  try {
    return decodeJwt(token)
  } catch {
    return {}
  }
}

/** @throws Error if another person has signed in: the command was theirs who had the first token */
async function signInAs(subject: string, url: string, client: string): Promise<string> {
  const token = await signIn(url, client)
  if (readClaims(token).sub === subject) return token
  throw new Error(
    'Another person has signed in than the one whose token the command has used. Nothing was changed by this request.',
  )
}

/** The refusal with the command that gets another token. */
function withCommand(refused: ApiError, { loginClient }: SignInPlace, client: string | undefined): ApiError {
  const named = client === undefined || client === loginClient ? '' : ` --client ${client}`
  const hint = `Sign in again, and repeat the command: export TENON_TOKEN=$(tenon login${named})`
  return new ApiError(refused.status, { ...refused.problem, hint })
}
