/** The values of `format` in schemas of collections: those of JSON Schema that are cheap to test, and exact numbers. */

import Format from 'typebox/format'
import { canonicalOf, isNumberFormat, NUMBER_FORMATS } from './canonical-text.ts'

/** Without `regex`, which would compile texts of documents. */
export const FORMATS: readonly string[] = [
  'date-time',
  'date',
  'time',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uri',
  'uri-reference',
  'uuid',
  'json-pointer',
  ...NUMBER_FORMATS,
]

/** True if a text is of a format. @param format one of `FORMATS` */
export const hasFormat = (format: string, text: string): boolean =>
  isNumberFormat(format) ? canonicalOf(format, text) !== undefined : Format.Test(format, text)
