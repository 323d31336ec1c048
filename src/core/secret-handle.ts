/**
 * Handles: what stands for a secret wherever a run shows itself. Their letters are those that no encoding of a URL
 * changes, so that a handle comes through an address as it is.
 */

import type { Json } from './work.ts'

/** What everybody sees in place of a handle. */
export const MASK = '***'

const BEGIN = 'tenonsecret~'
const MARK_CHARS = 32
/** The name, and a mark that only the platform can make, of a fixed length: what follows it belongs to something else. */
const HANDLE = `${BEGIN}([A-Za-z0-9_.-]{1,63})~[A-Za-z0-9_-]{${MARK_CHARS}}`
/** A new one each time, since it keeps where it is, and workflows share what they keep. */
const handles = () => new RegExp(HANDLE, 'g')

/** @param mark letters of base64url that follow from the run and the place within the secret; the first 32 count */
export function handleOf(name: string, mark: string): string {
  return `${BEGIN}${name}~${mark.slice(0, MARK_CHARS)}`
}

/** The text with something else in place of each handle, or of what looks like one. */
export function replaceHandles(
  text: string,
  by: (handle: string, name: string, at: number) => string,
): string {
  if (!text.includes(BEGIN)) return text
  return text.replaceAll(handles(), (handle, name: string, at: number) => by(handle, name, at))
}

/** Whether the text is a handle, and nothing else. */
export const isHandle = (text: string): boolean => text !== '' && text.replaceAll(handles(), '') === ''

/** Whether a handle is anywhere in the value, or what looks like one. */
export function holdsHandle(value: Json): boolean {
  return JSON.stringify(value).search(handles()) >= 0
}

/** Names of the secrets of which a handle, or what looks like one, is anywhere in the value. */
export function handlesIn(value: Json): readonly string[] {
  return [...JSON.stringify(value).matchAll(handles())].map(([, name = '']) => name)
}

/**
 * The value with `***` in place of each handle: for what people see, and for what comes to a run from outside. JSON
 * writes the letters of a handle as they are.
 * @param kept those that stay
 */
export function withoutHandles<T extends Json>(value: T, kept: ReadonlySet<string> = new Set()): T {
  const text = JSON.stringify(value)
  if (!text?.includes(BEGIN)) return value
  return JSON.parse(replaceHandles(text, (handle) => (kept.has(handle) ? handle : MASK)))
}
