/**
 * Files that settings name. A setting with a secret may be given as the path of a file that holds it (`<NAME>_FILE`); certificates and keys are
 * files in PEM.
 */

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'

/**
 * The text of a file without the line break at its end, which editors and `echo` add.
 * @param setting that names the file, for the error
 * @throws Error that names the setting, and shows nothing of the file
 */
export function readSecretFile(setting: string, path: string): string {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code = 'it cannot be opened' } = error as NodeJS.ErrnoException
    throw new Error(`${setting} names a file that cannot be read: ${code}.`)
  }
  const secret = text.replace(/\r?\n$/, '')
  if (secret === '') throw new Error(`${setting} names a file that is empty.`)
  return secret
}

type Environment = Readonly<Record<string, string | undefined>>

interface WithSecrets {
  /** With the values in place of the files. */
  readonly env: Environment
  /** A sentence for each setting whose file cannot be used, by its name without `_FILE`. */
  readonly faults: ReadonlyMap<string, string>
}

/**
 * Reads the files of those settings that are given as a file.
 * @param names of settings with a secret
 * @param pathOf resolves a path; by default it is relative to the working directory
 */
export function withSecretFiles(
  env: Environment,
  names: readonly string[],
  pathOf: (path: string) => string = (path) => path,
): WithSecrets {
  const read: Record<string, string | undefined> = {}
  const faults = new Map<string, string>()
  for (const name of names) {
    const setting = `${name}_FILE`
    const path = env[setting]
    if (!path) continue
    try {
      if (env[name]) throw new Error(`${name} and ${setting} are both set: unset one of them.`)
      read[name] = readSecretFile(setting, pathOf(path))
      read[setting] = undefined
    } catch (error) {
      faults.set(name, (error as Error).message)
    }
  }
  return { env: { ...env, ...read }, faults }
}

/** The content of a file in PEM: one certificate or several of them, or a private key. */
export type PemKind = 'certificate' | 'key'

/**
 * Reads a file in PEM.
 * @returns its text
 * @throws Error that names the setting
 */
export function readPem(setting: string, path: string, kind: PemKind): string {
  const text = readSecretFile(setting, path)
  try {
    if (kind === 'certificate') new X509Certificate(text)
    else createPrivateKey(text)
  } catch {
    throw new Error(`${setting} names a file that has no ${kind} in PEM.`)
  }
  return text
}

/** Files that the driver of PostgreSQL reads itself, by their parameter in the URL. */
const OF_POSTGRES: Readonly<Record<string, PemKind>> = {
  sslrootcert: 'certificate',
  sslcert: 'certificate',
  sslkey: 'key',
}

/** A sentence for each file in the URL of PostgreSQL that cannot be used: the driver would say so at each connection. */
export function urlFaults(setting: string, url: string): string[] {
  if (!URL.canParse(url)) return []
  const { searchParams } = new URL(url)
  return Object.entries(OF_POSTGRES).flatMap(([parameter, kind]) => {
    const path = searchParams.get(parameter)
    try {
      if (path) readPem(`${parameter} in ${setting}`, path, kind)
      return []
    } catch (error) {
      return [(error as Error).message]
    }
  })
}

/** A setting, and the text of its file. */
type Given = readonly [setting: string, text: string | undefined]

/** A sentence if one of them is missing, or they do not belong together. */
export function pairFaults([certSetting, cert]: Given, [keySetting, key]: Given): string[] {
  if (cert === undefined && key === undefined) return []
  if (cert === undefined || key === undefined)
    return [`${certSetting} and ${keySetting} need each other: set both.`]
  const isPair = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))
  return isPair ? [] : [`${keySetting} is not the key of the certificate of ${certSetting}.`]
}
