/**
 * Handles, which stand for secrets inside an execution. They consist of characters that URL encoding does not change, so that
 * a handle in a URL stays intact.
 */

import type { Json } from './work.ts'

/** Shown to people instead of a handle. */
export const MASK = '***'

const BEGIN = 'tenonsecret~'
const MARK_CHARS = 32
/** The name, and a mark of fixed length that only the platform can create; text may follow it directly. */
const HANDLE = `${BEGIN}([A-Za-z0-9_.-]{1,63})~[A-Za-z0-9_-]{${MARK_CHARS}}`
/** The longest handle. */
export const HANDLE_CHARS_MAX = BEGIN.length + 63 + 1 + MARK_CHARS

/** A new instance each time: a global pattern has state, which workflows must not share. */
const handles = () => new RegExp(HANDLE, 'g')

/** @param mark base64url, derived from the execution and the pointer within the secret; the first 32 characters count */
export function handleOf(name: string, mark: string): string {
  return `${BEGIN}${name}~${mark.slice(0, MARK_CHARS)}`
}

/** Replaces each handle, and each text of that form. */
export function replaceHandles(
  text: string,
  by: (handle: string, name: string, at: number) => string,
): string {
  if (!text.includes(BEGIN)) return text
  return text.replaceAll(handles(), (handle, name: string, at: number) => by(handle, name, at))
}

/** True if the whole text is a handle. */
export const isHandle = (text: string): boolean => text !== '' && text.replaceAll(handles(), '') === ''

/** True if a value contains a handle or text of that form. */
export function holdsHandle(value: Json): boolean {
  return JSON.stringify(value).search(handles()) >= 0
}

/** The names of secrets whose handles, or texts of that form, are in the value. */
export function handlesIn(value: Json): readonly string[] {
  return [...JSON.stringify(value).matchAll(handles())].map(([, name = '']) => name)
}

/**
 * Replaces each handle by `***`, for values that people see and for values from outside. JSON does not escape the characters
 * of a handle.
 * @param kept handles that stay
 */
export function withoutHandles<T extends Json>(value: T, kept: ReadonlySet<string> = new Set()): T {
  const text = JSON.stringify(value)
  if (!text?.includes(BEGIN)) return value
  return JSON.parse(replaceHandles(text, (handle) => (kept.has(handle) ? handle : MASK)))
}
