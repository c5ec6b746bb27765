// Package svg writes drawings for reports: text, lines and bars by coordinates, in
// colours that follow the reader's light or dark scheme.
//
// Invariants:
//   - A drawing is valid XML whatever its texts hold, and needs no other file: no
//     script, no font, no style sheet from elsewhere.
//   - Texts are texts, which can be selected and searched for.
//   - No coordinate is NaN or infinite; one that would be is 0.
package svg
