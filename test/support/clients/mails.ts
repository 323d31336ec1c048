/** Reads mails that the platform has written to its folder instead of sending them. */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inject } from 'vitest'
import { eventually } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'

export interface Received {
  readonly messageId: string
  readonly subject: string
  /** The link to an approval, of a user of a workspace, or to the password of an account. */
  readonly link: string
}

/** Mails to an address whose subject contains the text. */
export async function mailsTo(
  email: string,
  subject: string,
  at: Running = inject('tenon'),
): Promise<Received[]> {
  const folder = at.env['TENON_MAIL_DIR'] ?? ''
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.eml'))
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  return texts.flatMap((text) => {
    const plain = text.replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
    const header = (name: string) => new RegExp(`^${name}: (.*?)\\r?$`, 'im').exec(plain)?.[1] ?? ''
    const link =
      /https?:\/\/\S+\/(?:approvals|auth\/user\/link|auth\/invitation)\?token=\S+/.exec(plain)?.[0] ?? ''
    const isOurs = header('to').includes(email) && header('subject').includes(subject)
    return isOurs ? [{ messageId: header('message-id'), subject: header('subject'), link }] : []
  })
}

export const mailTo = (email: string, subject: string, at?: Running): Promise<Received> =>
  eventually(async () => (await mailsTo(email, subject, at))[0])
