/** The packages that an installation has, and the licences that they may have. */

import { readFileSync } from 'node:fs'

/** Licences that demand no more than to be named; none of them is about the code that uses the package. */
const ALLOWED = [
  ...[
    '0BSD',
    'Apache-2.0',
    'BlueOak-1.0.0',
    'BSD-2-Clause',
    'BSD-3-Clause',
    'CC-BY-4.0',
    'ISC',
    'MIT',
    'MIT-0',
  ],
  ...['PostgreSQL', 'Unlicense'],
]

/** Packages with another licence, by the beginning of their name: why that is allowed. */
export const EXCEPTIONS: Readonly<Record<string, { readonly licence: string; readonly because: string }>> = {
  '@img/sharp-': {
    licence: 'LGPL-3.0-or-later',
    because: 'libvips, a library of its own that can be replaced',
  },
}

/** Licences of packages whose `package.json` names none, from the file LICENSE in them. */
const UNNAMED: Readonly<Record<string, string>> = { unionfs: 'Unlicense' }

interface Entry {
  readonly version?: string
  readonly license?: string
  readonly dev?: boolean
  readonly devOptional?: boolean
  /** True for a package of this repository. */
  readonly link?: boolean
}

export interface InstalledPackage {
  readonly name: string
  readonly version: string
  /** An expression of SPDX. */
  readonly licence: string
}

/** All packages of the lock file. */
export const lockedPackages = (): Readonly<Record<string, Entry>> =>
  JSON.parse(readFileSync('package-lock.json', 'utf8')).packages

/** The packages that `npm ci --omit=dev` installs on any platform. */
export function productionPackages(): InstalledPackage[] {
  return Object.entries(lockedPackages()).flatMap(([path, { version = '', license, dev, link }]) => {
    if (!path.startsWith('node_modules/') || dev || link) return []
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    return [{ name, version, licence: license ?? UNNAMED[name] ?? 'none' }]
  })
}

/** The licences that all hold: of alternatives, the first one that is allowed. */
export function licencesOf(expression: string): string[] {
  const parts = expression.replaceAll(/[()]/g, '').split(' AND ')
  return parts.map((part) => {
    const choices = part.split(' OR ')
    return choices.find((choice) => isAllowed(choice)) ?? choices[0] ?? part
  })
}

/** @param name of the package, which may be an exception */
export const isAllowed = (licence: string, name = ''): boolean =>
  ALLOWED.includes(licence) ||
  Object.entries(EXCEPTIONS).some(([prefix, one]) => name.startsWith(prefix) && one.licence === licence)
