/** Shows mails that were written to a folder instead of being sent: for development, to clients on this machine alone. */

import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Problem } from '../../core/problem.ts'
import { escapeHtml, page } from '../../features/identity/pages/pages.ts'
import type { Config } from '../../infra/config.ts'
import { API_LIMITS } from '../limits.ts'
import { show } from './forms.ts'

export function mountDevMail(app: FastifyInstance, { SMTP_URL, TENON_MAIL_DIR: folder }: Config): void {
  if (folder === undefined || SMTP_URL !== undefined) return
  app.get('/dev/mail', async (request, reply) => {
    if (!isLocal(request)) throw new Problem('route_not_found')
    const mails = await newestMails(folder)
    const items = mails.map((text) => `<li><pre>${linked(escapeHtml(text))}</pre></li>`)
    const none = mails.length === 0 ? '<p>There are no mails yet.</p>' : ''
    return show(reply, page('Mails', `${none}<ul class="access">${items.join('')}</ul>`))
  })
}

/** By address and by name: a page of another site may have its name resolve to this machine. */
function isLocal({ ip, hostname }: FastifyRequest): boolean {
  const isLoopback = /^(127\.|::1$|::ffff:127\.)/.test(ip)
  return isLoopback && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname)
}

async function newestMails(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const files = await Promise.all(
    names
      .filter((name) => name.endsWith('.eml'))
      .map(async (name) => ({ path: join(folder, name), at: (await stat(join(folder, name))).mtimeMs })),
  )
  const newest = files.toSorted((a, b) => b.at - a.at).slice(0, API_LIMITS.mailsShownMax)
  return Promise.all(newest.map(async ({ path }) => readable(await readFile(path, 'latin1'))))
}

/** Decodes quoted-printable text (RFC 2045 §6.7). */
function readable(eml: string): string {
  const bytes = eml
    .replaceAll(/=\r?\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

const linked = (text: string) =>
  text.replaceAll(/https?:\/\/[^\s&]+/g, (url) => `<a href="${url}">${url}</a>`)
