/** The OAuth side of an MCP client for both SDKs: it registers itself, and its user consents. */

import { Browser, REDIRECT, signIn, type TestAccount } from './browser.ts'

/** State of a client; its user answers the consent page as soon as it is opened. */
export class Agent {
  readonly #person: TestAccount

  readonly redirectUrl = REDIRECT
  readonly clientMetadata = {
    client_name: 'Agent',
    redirect_uris: [REDIRECT],
    token_endpoint_auth_method: 'none',
    scope: 'mcp:agents:notes_get offline_access',
  }
  readonly browser = new Browser(REDIRECT)
  code: string | undefined
  requestedScopes: string[] = []
  #client: never | undefined
  #tokens: never | undefined
  #verifier = ''
  clientInformation = () => this.#client
  saveClientInformation = (client: unknown) => {
    this.#client = client as never
  }
  tokens = () => this.#tokens
  saveTokens = (tokens: unknown) => {
    this.#tokens = tokens as never
  }
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier
  }
  codeVerifier = () => this.#verifier
  redirectToAuthorization = async (url: URL) => {
    this.requestedScopes.push(url.searchParams.get('scope') ?? '')
    const end = await signIn(this.browser, { url: url.href, verifier: '', state: '' }, this.#person)
    this.code = end.searchParams.get('code') ?? undefined
    this.iss = end.searchParams.get('iss') ?? undefined
  }
  iss: string | undefined

  constructor(person: TestAccount) {
    this.#person = person
  }
}
