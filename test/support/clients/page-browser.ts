/** A browser reduced to the needs of OAuth: cookies with paths, forms and redirects. It needs no test runner. */

interface Cookie {
  readonly value: string
  readonly path: string
  readonly text: string
}

export interface Seen {
  readonly url: string
  readonly status: number
  readonly html: string
  readonly headers: Headers
}

export class Browser {
  readonly #cookies = new Map<string, Cookie>()
  /** Redirects to this address are not followed: the client listens there. */
  readonly client: string

  constructor(client: string) {
    this.client = client
  }

  get cookies(): readonly Cookie[] {
    return [...this.#cookies.values()]
  }

  open(url: string): Promise<Seen> {
    return this.#go('GET', url)
  }

  submit(page: Seen, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Seen> {
    return this.#go('POST', page.url, new URLSearchParams(fields), headers)
  }

  async #go(
    method: string,
    url: string,
    body?: URLSearchParams,
    headers: Record<string, string> = {},
  ): Promise<Seen> {
    const cookie = this.#cookiesFor(url)
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: { ...(cookie !== '' && { cookie }), ...headers },
      ...(body !== undefined && { body }),
    })
    this.#keep(response, url)
    const location = response.headers.get('location')
    if (location === null)
      return { url, status: response.status, html: await response.text(), headers: response.headers }
    const next = new URL(location, url).href
    if (next.startsWith(this.client))
      return { url: next, status: response.status, html: '', headers: response.headers }
    return this.#go('GET', next)
  }

  #cookiesFor(url: string): string {
    const { hostname, pathname } = new URL(url)
    const fitting = [...this.#cookies].filter(
      ([key, { path }]) => key.endsWith(` ${hostname}`) && pathname.startsWith(path),
    )
    return fitting.map(([key, { value }]) => `${key.split(' ')[0]}=${value}`).join('; ')
  }

  #keep(response: Response, url: string): void {
    for (const text of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = text.split(/; ?/)
      const at = pair.indexOf('=')
      const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5)
      const kept = { value: pair.slice(at + 1), path: path ?? new URL(url).pathname, text }
      const key = `${pair.slice(0, at)} ${kept.path} ${new URL(url).hostname}`
      if (kept.value === '') this.#cookies.delete(key)
      else this.#cookies.set(key, kept)
    }
  }
}

export const REDIRECT = 'http://127.0.0.1:9/callback'

export interface TestAccount {
  readonly id: string
  readonly email: string
  readonly password: string
  readonly tenant: string
}

/** Signs in and consents. @returns the address that the client is redirected to in the end */
export async function signIn(
  browser: Browser,
  { url }: { readonly url: string },
  person: TestAccount,
): Promise<URL> {
  const login = await browser.open(url)
  const { tenant, email, password } = person
  let page = await browser.submit(login, { action: 'login', tenant, email, password })
  const hasEnded = () => page.url.startsWith(browser.client)
  if (!hasEnded()) page = await browser.submit(page, { action: 'allow' })
  if (!hasEnded()) throw new Error(`${page.status} ${page.url} ${page.html}`)
  return new URL(page.url)
}
