package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// assets serves the files of static. Their addresses hold a hash of them all, so
// that a browser may keep them for good.
type assets struct {
	base  string // /console/static/HASH/
	files map[string][]byte
}

func loadAssets() (*assets, error) {
	a := &assets{files: map[string][]byte{}}
	sum := sha256.New()
	err := fs.WalkDir(staticFiles, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := staticFiles.ReadFile(name)
		if err != nil {
			return err
		}
		a.files[strings.TrimPrefix(name, "static/")] = data
		sum.Write([]byte(name))
		sum.Write(data)
		return nil
	})
	a.base = Path + "/static/" + hex.EncodeToString(sum.Sum(nil)[:6]) + "/"
	return a, err
}

// url is the address of a file.
func (a *assets) url(name string) string { return a.base + name }

// ServeHTTP serves a file at its address, and nothing at one of another version.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ours := strings.CutPrefix(r.URL.Path, a.base)
	data, there := a.files[name]
	if !ours || !there {
		http.Error(w, "There is no such file; reload the page.", http.StatusNotFound)
		return
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // whatever this machine's tables say
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	case "":
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(data) // the client may be gone
}
