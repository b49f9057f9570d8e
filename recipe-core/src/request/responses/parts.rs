//! The parts of messages and outputs in a Responses body: text, images and files. Knows no items.

use super::body::{File, Image, Output, OutputPart, Part};
use crate::conversation::{Content, ImageDetail};
use crate::data_url::DataUrl;
use crate::error::{Error, Result};
use crate::options::{ConversionOptions, ModelVersion};
use crate::request::check_served;
use crate::request::content::{self, Parts, UNSUPPORTED_IMAGE};
use crate::request::shape::StringOrList;
use crate::special::SpecialToken;

const UNSUPPORTED_DOCUMENT: &str = "[Unsupported Document]";

/// Joins parts, as the model can see them.
pub(super) struct PartReader<'o> {
    pub(super) version: ModelVersion,
    pub(super) options: &'o ConversionOptions,
}

impl PartReader<'_> {
    /// The content of a message that is not the assistant's. `i` is the number of the item, as below.
    pub(super) fn content(&self, content: StringOrList<Part>, i: usize) -> Result<Content> {
        let parts = match content {
            StringOrList::String(text) => return Ok(Content::from(text)),
            StringOrList::List(parts) => parts,
        };
        self.check_images(parts.iter().map(image_of), &format!("input[{i}].content"))?;
        let mut joined = Parts::default();
        for (j, part) in parts.into_iter().enumerate() {
            match self.part_text(part, i, j)? {
                Ok(text) => joined.text(&text),
                Err(image) => self.image(image, i, &mut joined)?,
            }
        }
        Ok(joined.finish())
    }

    /// The text of an assistant message, which has no images.
    pub(super) fn assistant_text(&self, content: StringOrList<Part>, i: usize) -> Result<String> {
        let parts = match content {
            StringOrList::String(text) => return Ok(text),
            StringOrList::List(parts) => parts,
        };
        self.check_images(parts.iter().map(image_of), &format!("input[{i}].content"))?;
        let mut joined = Parts::default();
        for (j, part) in parts.into_iter().enumerate() {
            match self.part_text(part, i, j)? {
                Ok(text) => joined.text(&text),
                Err(_) if self.version == ModelVersion::DeepseekV4Pro => joined.text(UNSUPPORTED_IMAGE),
                Err(_) => {
                    return Err(Error::conversion(format!("input[{i}]: Image in assistant message is unsupported")));
                }
            }
        }
        Ok(joined.finish().into_text())
    }

    /// The result of a call; without one it is empty.
    pub(super) fn output(&self, output: Option<Output>, i: usize) -> Result<Content> {
        let parts = match output {
            None => return Ok(Content::default()),
            Some(Output(StringOrList::String(text))) => return Ok(Content::from(text)),
            Some(Output(StringOrList::List(parts))) => parts,
        };
        let images = parts.iter().map(|part| match part {
            OutputPart::Image(image) => Some(image),
            _ => None,
        });
        self.check_images(images, &format!("input[{i}].output"))?;
        let mut joined = Parts::default();
        for (j, part) in parts.into_iter().enumerate() {
            match part {
                OutputPart::Text(part) => joined.text(&part.text),
                OutputPart::File(file) => {
                    joined.text(&self.file_text(file, || format!("input[{i}].output[{j}]"))?);
                }
                OutputPart::Image(image) => self.image(image, i, &mut joined)?,
            }
        }
        Ok(joined.finish())
    }

    /// Checks the shapes of the images among the parts at `path`: they come before the faults of every URL.
    /// V4 looks at no image.
    fn check_images<'p>(&self, parts: impl Iterator<Item = Option<&'p Image>>, path: &str) -> Result<()> {
        if self.version == ModelVersion::DeepseekV4Pro {
            return Ok(());
        }
        for (j, image) in parts.enumerate() {
            image.map_or(Ok(()), |image| check_image(image, &format!("{path}[{j}]")))?;
        }
        Ok(())
    }

    /// A source has the path of the item.
    fn image(&self, image: Image, i: usize, joined: &mut Parts) -> Result<()> {
        if self.version == ModelVersion::DeepseekV4Pro {
            joined.text(UNSUPPORTED_IMAGE);
            return Ok(());
        }
        let detail = image.detail.0.map_or(ImageDetail::High, ImageDetail::from);
        let url = image.image_url.unwrap_or_default();
        let token = self.options.special_tokens.get(SpecialToken::Image);
        joined.image(content::image_source(url, detail, format!("input[{i}]"))?, token);
        Ok(())
    }

    /// The text of a part, or the image that it is. `j` is the number of the part.
    fn part_text(&self, part: Part, i: usize, j: usize) -> Result<std::result::Result<String, Image>> {
        Ok(match part {
            Part::InputText(part) => Ok(part.text),
            Part::OutputText(part) => Ok(part.text),
            Part::Refusal(part) => Ok(part.refusal),
            Part::File(file) => Ok(self.file_text(file, || format!("input[{i}].content[{j}]"))?),
            Part::Image(image) => Err(image),
        })
    }

    /// A file that is text becomes one.
    fn file_text(&self, file: File, path: impl FnOnce() -> String) -> Result<String> {
        let data = file.file_data.0.unwrap_or_default();
        let readable = DataUrl::parse(&data).filter(DataUrl::is_readable).and_then(|data| data.decode());
        if let Some(bytes) = readable {
            return Ok(content::file_text(None, file.filename.0.as_deref().unwrap_or("document"), &bytes));
        }
        check_served(self.options, "input_file", path)?;
        Ok(UNSUPPORTED_DOCUMENT.to_owned())
    }
}

fn image_of(part: &Part) -> Option<&Image> {
    match part {
        Part::Image(image) => Some(image),
        _ => None,
    }
}

/// The image part at `path` has a URL and nothing else. An empty one counts as absent.
fn check_image(image: &Image, path: &str) -> Result<()> {
    let has_url = image.image_url.as_deref().is_some_and(|url| !url.is_empty());
    let text = match (has_url, image.file_id.is_some()) {
        (true, false) => return Ok(()),
        (true, true) => "input_image cannot have both image_url and file_id",
        (false, true) => "file_id is not supported. Pass the image as a base64 data url instead.",
        (false, false) => "input_image must have image_url or file_id",
    };
    Err(Error::conversion(format!("{path}: {text}")).at(path))
}
